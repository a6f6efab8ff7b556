"""`amplifier logs --tree`: the logs of a session and of all that it started, as one tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import click

from amplifier_app_cli.children.log_tree import LogNode, lines_of
from amplifier_app_cli.ui.layout import duration, summarize_input
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import print_json, print_json_line
from amplifier_app_cli.ui.spending import price_text, usage_record
from amplifier_kit.log import LogLine

_STEP = "  "


def print_lines(top: LogNode, events: tuple[str, ...], readable: Callable[[LogLine], str]) -> None:
    """Print all lines in the order of time, moved in by depth; each session begins with its call and ends with its end.

    The lines of children have the name of their agent, since several may run at the same time.
    """
    for kind, node, line in lines_of(top):
        indent = _STEP * node.depth
        if line is not None:
            if not events or line.event in events:
                name = f"[{_one_line(node.name)}] " if node.depth else ""
                click.echo(f"{indent}{name}{readable(line)}")
        else:
            _print_edge(kind, node)


def print_frame(top: LogNode) -> None:
    """Print how each session began and ended, one line each, in the order of time."""
    for kind, node, line in lines_of(top):
        if line is None:
            _print_edge(kind, node)


def _print_edge(kind: str, node: LogNode) -> None:
    text = f"▸ {_one_line(_beginning(node))}" if kind == "begins" else f"■ {_one_line(_ending(node))}"
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
        records[node.session_id] = {**_record(node), "events": shown[node.session_id], "children": below}
    print_json(records[top.session_id])


def warnings_of(top: LogNode) -> Iterable[str]:
    """Yield what the reader should know of logs that are not whole."""
    for node in top.walk():
        if node.torn:
            lines = "1 line holds" if node.torn == 1 else f"{node.torn} lines hold"
            yield f"{node.folder}: {lines} no record"


def _record(node: LogNode) -> dict[str, Any]:
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
        parts += [f"goes on by call {later.tool_call_id}" for later in calls[1:]]
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


def _one_line(text: str) -> str:
    return " ".join(plain(text).split())
