"""`amplifier logs`: what happened, line by line."""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import current_app
from amplifier_app_cli.children.log_tree import read_tree
from amplifier_app_cli.commands import logs_tree
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import format_option, json_text
from amplifier_app_cli.ui.say import complain, show_warnings
from amplifier_app_cli.ui.streams import unwritten
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home, current_project
from amplifier_foundation.sessions.metadata import SessionSummary
from amplifier_foundation.sessions.store import SessionStore
from amplifier_kit.log import LogLine, read_log, verify_log

_SHOWN = 100


@click.command()
@click.argument("session", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the records as they are, one JSON object per line.")
@click.option("-e", "--event", "events", multiple=True, help="Show only events of this name (may be repeated).")
@click.option("-t", "--tree", "as_tree", is_flag=True, help="With the logs of all sessions that it started, in order.")
@click.option("--verify", "is_check", is_flag=True, help="Check numbers, hashes and large values instead.")
@click.option("--brief", "is_brief", is_flag=True, help="Of a tree, only how each session began and ended.")
@format_option
def logs(
    session: str | None,
    as_json: bool,
    events: tuple[str, ...],
    as_tree: bool,
    is_check: bool,
    is_brief: bool,
    output_format: str,
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
      amplifier logs --tree --format json | jq '.children[] | [.agent, .end, .tree_cost_usd]'
    """
    show_warnings()
    if is_brief and (not as_tree or events or as_json or output_format == "json"):
        raise click.UsageError("--brief is for --tree, and goes with neither --event nor JSON")
    if is_check:
        if as_tree or events:
            raise click.UsageError("--verify goes with neither --tree nor --event")
        _verify(_session(session)[1].folder, as_json or output_format == "json")
        return
    if as_tree:
        _print_tree(session, events, "brief" if is_brief else "lines" if as_json else output_format)
        return
    folder = _session(session)[1].folder
    as_json = as_json or output_format == "json"
    try:
        for line in read_log(folder):
            if not events or line.event in events:
                click.echo(_as_json(line) if as_json else _readable(line))
    except BrokenPipeError:
        raise  # click ends quietly: the reader has seen enough
    except OSError as error:
        _fail(_unprinted(error) or f"cannot read the log in {folder}: {error.strerror or error}")


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
        if form == "json":
            logs_tree.print_document(top, events)
        elif form == "lines":
            logs_tree.print_records(top, events)
        elif form == "brief":
            logs_tree.print_frame(top)
        else:
            logs_tree.print_lines(top, events, _readable)
    except BrokenPipeError:
        raise  # click ends quietly: the reader has seen enough
    except FoundationError as error:
        _fail(str(error))
    except OSError as error:
        _fail(_unprinted(error) or f"cannot read the logs below {found.folder}: {error.strerror or error}")
    current_app().warn(logs_tree.warnings_of(top))


def _session(session: str | None) -> tuple[SessionStore, SessionSummary]:
    try:
        home, project = Home.find(), current_project()
        store = SessionStore(home)
        found = store.newest(project) if session is None else store.find(session, project)
    except (FoundationError, OSError) as error:
        _fail(str(error))
    if found is None:
        _fail(f"no sessions in {home.sessions(project)}: run one first")
    return store, found


def _unprinted(error: OSError) -> str:
    """Return what to say when it was the output that could not be written; nothing when it was the log."""
    return unwritten(error) if error.errno == errno.ENOSPC else ""


def _fail(message: str) -> NoReturn:
    sys.exit(complain(exits.FAILURE, message))


def _as_json(line: LogLine) -> str:
    return json_text(line.record, encoding=sys.stdout.encoding)


def _readable(line: LogLine) -> str:
    facts = " ".join(f"{key}={_short(value)}" for key, value in line.data.items())
    status = f" {line.record['status']}" if line.record.get("status") else ""
    error = f" {line.error.get('message', '')}" if line.error else ""
    clock = (line.ts or "")[11:23]
    text = f"{line.seq or '':>5} {clock} {line.level or '':<7} {line.event}{status}{error} {facts}"
    return plain(text.replace("\n", "\\n")).rstrip()


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
