"""`amplifier logs`: the log of a session line by line, or with those of the sessions it started as one tree."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import current_app
from amplifier_app_cli.children.log_tree import LogNode, lines_of, read_tree
from amplifier_app_cli.completion import EVENT, SESSION
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.known_events import known_events
from amplifier_app_cli.ui.layout import duration, single_line, summarize_input
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_text, print_json, print_json_line
from amplifier_app_cli.ui.say import show_warnings
from amplifier_app_cli.ui.spending import price_text, usage_record
from amplifier_app_cli.ui.streams import unwritten
from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.paths import Home, current_project
from amplifier_foundation.sessions.metadata import SessionSummary
from amplifier_foundation.sessions.store import SessionStore
from amplifier_kit.log.reader import LogLine, read_log
from amplifier_kit.log.verify import verify_log

_SHOWN = 100


@click.command()
@click.argument("session", required=False, type=SESSION)
@click.option("--json", "as_json", is_flag=True, help="Print the records as they are, one JSON object per line.")
@click.option(
    "-e", "--event", "events", multiple=True, type=EVENT, help="Show only events of this name (may be repeated)."
)
@click.option(
    "-t", "--tree", "as_tree", is_flag=True, help="Include the logs of all sessions that it started, in order."
)
@click.option("--verify", "is_check", is_flag=True, help="Check numbers, hashes and large values instead.")
@click.option("--brief", "is_brief", is_flag=True, help="With --tree, only how each session began and ended.")
@click.option("--nested", "is_nested", is_flag=True, help="With --tree, print one JSON document: children inside.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), hidden=True)
@partial(report_errors, has_lines=True)
def logs(
    session: str | None,
    as_json: bool,
    events: tuple[str, ...],
    as_tree: bool,
    is_check: bool,
    is_brief: bool,
    is_nested: bool,
    form: str | None,
) -> None:
    """Print the log of SESSION (an id or its beginning), or of the newest session of this project.

    \b
    Examples:
      amplifier logs
      amplifier logs 3f2a --event tool:pre
      amplifier logs --json | jq .event
      amplifier logs --tree 3f2a
      amplifier logs --tree --brief
      amplifier logs --verify 3f2a
      amplifier logs --tree --nested | jq '.children[] | [.agent, .end, .tree_cost_usd]'
    """
    show_warnings()
    as_json = as_json or form == "json"
    # The published `--format json` prints a tree as one document.
    is_nested = is_nested or (as_tree and form == "json")
    if is_brief and (not as_tree or events or as_json or is_nested):
        raise click.UsageError("--brief is for --tree, and goes with neither --event nor JSON")
    if is_nested and not as_tree:
        raise click.UsageError("--nested is for --tree")
    if is_check:
        if as_tree or events:
            raise click.UsageError("--verify goes with neither --tree nor --event")
        _verify(_session(session)[1].folder, as_json)
        return
    if as_tree:
        _print_tree(session, events, "brief" if is_brief else "nested" if is_nested else "lines" if as_json else "text")
        return
    folder = _session(session)[1].folder
    _check_names(events, lambda: read_log(folder))
    try:
        for line in read_log(folder):
            if not events or line.event in events:
                click.echo(_as_json(line) if as_json else _readable(line))
    except BrokenPipeError:
        raise  # click ends quietly: the reader has seen enough
    except OSError as error:
        _fail(_unprinted(error) or f"cannot read the log in {folder}: {error.strerror or error}")


class UnknownEventError(FoundationError):
    """No event has that name, neither in the log nor in the program."""

    code = "event_unknown"


def _check_names(events: tuple[str, ...], lines: Callable[[], Iterable[LogLine]]) -> None:
    """Raise UnknownEventError for a name that no event has: neither one of these lines nor one of the program."""
    known = known_events()
    unknown = [event for event in events if event not in known]
    if not unknown:
        return
    seen = {line.event for line in lines()}
    for event in unknown:
        if event not in seen:
            hint = did_you_mean(event, sorted({*seen, *known}), "the log has " + ", ".join(sorted(seen)))
            raise UnknownEventError(f"unknown event {event!r}: {hint}")


def _verify(folder: Path, as_json: bool) -> None:
    """Print what a check of the log found; exit with a failure when lines are missing or were changed."""
    try:
        report = verify_log(folder)
    except OSError as error:
        _fail(f"cannot read the log in {folder}: {error.strerror or error}")
    problems = [f"{one.path.name}:{one.number}: {one.text}" for one in report.problems]
    if as_json:
        facts = {"ok": report.ok, "lines": report.lines, "hashed": report.chained, "dropped": report.dropped}
        click.echo(json_text({**facts, "torn": len(report.torn), "head": report.head, "problems": problems}))
    else:
        for problem in problems:
            click.echo(plain(problem))
        hashed = f", {report.chained} with the hash of the line before" if report.chained else ""
        current_app().inform(f"{report.lines} lines{hashed}, {report.dropped} lost, {report.problem_count} problems")
    if not report.ok:
        sys.exit(exits.FAILURE)


def _print_tree(session: str | None, events: tuple[str, ...], form: str) -> None:
    store, found = _session(session)
    try:
        top = read_tree(found, store.descendants(found))
        _check_names(events, lambda: (line for _, _, line in lines_of(top) if line is not None))
        if form == "nested":
            print_document(top, events)
        elif form == "lines":
            print_records(top, events)
        elif form == "brief":
            print_frame(top)
        else:
            print_lines(top, events, _readable)
    except BrokenPipeError:
        raise  # click ends quietly: the reader has seen enough
    except OSError as error:
        _fail(_unprinted(error) or f"cannot read the logs below {found.folder}: {error.strerror or error}")
    current_app().warn(warnings_of(top))


def _session(session: str | None) -> tuple[SessionStore, SessionSummary]:
    home, project = Home.find(), current_project()
    store = SessionStore(home)
    found = store.newest(project) if session is None else store.find(session, project)
    if found is None:
        raise click.UsageError(f"{project} has no session yet: run one with `amplifier run PROMPT`")
    return store, found


def _unprinted(error: OSError) -> str:
    """Return what to say when it was the output that could not be written; nothing when it was the log."""
    return unwritten(error) if error.errno == errno.ENOSPC else ""


def _fail(message: str) -> NoReturn:
    raise FoundationError(message)


def _as_json(line: LogLine) -> str:
    return json_text(line.record, encoding=sys.stdout.encoding)


def _readable(line: LogLine) -> str:
    facts = " ".join(f"{key}={_short(value)}" for key, value in line.data.items())
    status = f" {line.record['status']}" if line.record.get("status") else ""
    error = f" {line.error.get('message', '')}" if line.error else ""
    clock = (line.ts or "")[11:23]
    took = line.record.get("duration_ms")
    length = f" ({duration(took / 1000)})" if isinstance(took, int | float) and not isinstance(took, bool) else ""
    text = f"{line.seq or '':>5} {clock} {line.level or '':<7} {line.event}{status}{length}{error} {facts}"
    return plain(text.replace("\n", "\\n")).rstrip()


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_STEP = "  "


def print_lines(top: LogNode, events: tuple[str, ...], readable: Callable[[LogLine], str]) -> None:
    """Print all lines in the order of time, moved in by depth; each session begins with its call and ends with its end.

    The lines of children have the name of their agent, since several may run at the same time.
    """
    for kind, node, line in lines_of(top):
        indent = _STEP * node.depth
        if line is not None:
            if not events or line.event in events:
                name = f"[{single_line(node.name)}] " if node.depth else ""
                click.echo(f"{indent}{name}{readable(line)}")
        else:
            _print_edge(kind, node)


def print_frame(top: LogNode) -> None:
    """Print how each session began and ended, one line each, in the order of time."""
    for kind, node, line in lines_of(top):
        if line is None:
            _print_edge(kind, node)


def _print_edge(kind: str, node: LogNode) -> None:
    text = f"▸ {single_line(_beginning(node))}" if kind == "begins" else f"■ {single_line(_ending(node))}"
    click.echo(_STEP * node.depth + text)


def print_records(top: LogNode, events: tuple[str, ...]) -> None:
    """Print the records of all logs, one JSON object per line, each with the `agent` and the `depth` of its session."""
    for _, node, line in lines_of(top):
        if line is not None and (not events or line.event in events):
            print_json_line({**line.record, "agent": node.agent, "depth": node.depth})


def print_document(top: LogNode, events: tuple[str, ...]) -> None:
    """Print one JSON object: the session, its events, and its children in it, each with its calls, cost and end."""
    shown: dict[str, list[Any]] = {node.session_id: [] for node in top.walk()}
    for _, node, line in lines_of(top):
        if line is not None and (not events or line.event in events):
            shown[node.session_id].append(line.record)
    records: dict[str, dict[str, Any]] = {}
    for node in list(top.walk())[::-1]:  # children before their parents
        below = [records.pop(child.session_id) for child in node.children]
        records[node.session_id] = {**_node_record(node), "events": shown[node.session_id], "children": below}
    print_json(records[top.session_id])


def warnings_of(top: LogNode) -> Iterable[str]:
    """Yield a warning for each incomplete log."""
    for node in top.walk():
        if node.torn:
            lines = "1 line holds" if node.torn == 1 else f"{node.torn} lines hold"
            yield f"{node.folder}: {lines} no record"


def _node_record(node: LogNode) -> dict[str, Any]:
    tree, ending, calls = usage_record(node.tree_usage()), node.ending, node.by_parent.calls
    return {
        "session_id": None if node.is_refused else node.session_id,
        "parent_session_id": node.parent_id,
        "agent": node.agent,
        "depth": node.depth,
        "tool_call_id": calls[0].tool_call_id if calls else None,
        "parallel_group_id": calls[0].parallel_group_id if calls else None,
        "calls": [
            {"tool_call_id": call.tool_call_id, "tool": call.tool, "tool_input": call.tool_input, "at": _iso(call.at)}
            for call in calls
        ],
        "end": ending.word,
        "reason": ending.reason or None,
        "started": _iso(node.started),
        "ended": _iso(node.ended),
        "duration_ms": _milliseconds(node),
        **usage_record(node.usage),
        "tree_usage": tree["usage"],
        "tree_cost_usd": tree["cost_usd"],
        "folder": str(node.folder) if node.folder is not None else None,
    }


def _beginning(node: LogNode) -> str:
    calls = node.by_parent.calls
    parts = [f"{node.name} {'was refused' if node.is_refused else node.session_id}"]
    if calls:
        call = calls[0]
        given = call.tool_input
        asked = _shown(given.get("instruction")) if isinstance(given, dict) else None
        about = summarize_input({"command": asked} if isinstance(asked, str) else given, 80)
        parts.append(f"call {call.tool_call_id} of {call.tool or '?'}{f': {about}' if about else ''}")
        parts += [f"resumed by call {later.tool_call_id}" for later in calls[1:]]
    return " · ".join(parts)


def _shown(value: Any) -> Any:
    """Return a value as the log has it in its line: of one that it keeps apart, the beginning."""
    return value.get("preview") if isinstance(value, dict) and "$blob" in value else value


def _ending(node: LogNode) -> str:
    ending, used = node.ending, node.tree_usage()
    took = _milliseconds(node)
    parts = [f"{node.name} {ending.word}{f': {ending.reason}' if ending.reason else ''}"]
    if used.answers:
        below = " with its children" if node.children else ""
        parts.append(f"{price_text(used)}{below}")
    if took is not None:
        parts.append(duration(took / 1000))
    return " · ".join(parts)


def _milliseconds(node: LogNode) -> int | None:
    return None if node.started is None or node.ended is None else max(round((node.ended - node.started) * 1000), 0)


def _iso(seconds: float | None) -> str | None:
    return None if not seconds else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
