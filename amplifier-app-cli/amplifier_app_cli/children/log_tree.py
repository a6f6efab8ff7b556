"""Read the logs of a session and its descendants as one tree.

A log is read twice: once for how the session ended, and once line by line in order of time. Only sums are held in
memory, and only logs of sessions that ran at the same time are open at the same time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.children.endings import (
    CLOSED,
    SPAWNED,
    STARTED,
    TURN_EVENTS,
    Ending,
    LastTurn,
    child_of,
    combine_endings,
    own_ending,
    reported_ending,
)
from amplifier_kit.engine.usage import UsageRecord
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_foundation.sessions.metadata import SessionSummary
    from amplifier_kit.log.reader import LogLine


class Call(NamedTuple):
    """A call that spawned or resumed a session."""

    tool_call_id: str | None
    parallel_group_id: str | None
    tool: str | None
    tool_input: Any
    at: float


class ParentReport(NamedTuple):
    """What a session reports on one of its children."""

    calls: tuple[Call, ...] = ()
    ending: Ending | None = None
    agent: str | None = None
    at: float = 0.0
    #: Whether the call was rejected, as far as its event says: a child that worked has used something.
    is_rejected: bool = False


_NOTHING = ParentReport()
#: Prefix of the stand-in for the id of a rejected child; no session id has a blank.
_REFUSED = "refused by call "


@dataclass
class LogNode:
    """One session of the tree."""

    session_id: str
    #: None if the folder does not exist: the child was rejected, or its folder was deleted.
    folder: Path | None
    parent_id: str | None = None
    agent: str | None = None
    depth: int = 0
    children: list[LogNode] = field(default_factory=list)
    #: What its own answers used.
    usage: UsageRecord = field(default_factory=UsageRecord)
    #: When its first and its last line were written, in seconds.
    started: float | None = None
    ended: float | None = None
    is_begun: bool = False
    own_end: Ending | None = None
    #: Its reports on its children, by their ids.
    reports: dict[str, ParentReport] = field(default_factory=dict)
    #: The report of its parent.
    by_parent: ParentReport = _NOTHING
    #: The call that its own log names, and that call's parallel group.
    started_by: tuple[str | None, str | None] = (None, None)
    #: The tools and inputs of its calls, by call id.
    calls: dict[str, tuple[str | None, Any]] = field(default_factory=dict)
    #: Whether the call was rejected: there never was such a session.
    is_refused: bool = False
    is_running: bool = False
    #: How many of the same agent began before it.
    same_before: int = 0
    #: Lines that hold no record.
    torn: int = 0

    @property
    def ending(self) -> Ending:
        """Return how it ended."""
        if self.folder is None and self.by_parent.ending is None:
            return Ending("unknown", "its log is gone")
        return combine_endings(self.own_end, self.by_parent.ending, is_begun=self.is_begun, is_running=self.is_running)

    @property
    def name(self) -> str:
        """Return its agent, with a number if it is not the first one; else `session`."""
        name = self.agent or ("agent" if self.depth else "session")
        return f"{name} {self.same_before + 1}" if self.same_before else name

    def walk(self) -> Iterator[LogNode]:
        """Yield it and its descendants, each before its own children."""
        todo = [self]
        while todo:
            node = todo.pop()
            yield node
            todo += node.children[::-1]

    def tree_usage(self) -> UsageRecord:
        """Return what it and its descendants used."""
        return sum((node.usage for node in self.walk()), UsageRecord())


class TreeLine(NamedTuple):
    """One line of the tree: a line of a session's log, or the start (`begins`) or end (`ends`) of a session."""

    kind: str
    node: LogNode
    line: LogLine | None = None


def read_tree(root: SessionSummary, descendants: Sequence[SessionSummary]) -> LogNode:
    """Return the tree of a session and its descendants, from their logs; raises OSError."""
    nodes = {one.id: LogNode(one.id, one.folder, one.parent_id, one.agent_name) for one in (root, *descendants)}
    waiting = list(nodes.values())
    while waiting:
        node = waiting.pop()
        _scan(node)
        found = [_unrecorded(node, one, report) for one, report in node.reports.items() if one not in nodes]
        waiting += (adopted := [one for one in found if one is not None])
        nodes |= {one.session_id: one for one in adopted}
    top = nodes[root.id]
    for node in list(nodes.values()):
        parent = nodes.get(node.parent_id or "")
        if node is not top and parent is not None:
            parent.children.append(node)
            node.by_parent = parent.reports.get(node.session_id) or _own_report(node, parent)
    for node in list(nodes.values()):
        node.children += [_missing(node, one, report) for one, report in node.reports.items() if one not in nodes]
    _order(top)
    return top


def lines_of(top: LogNode) -> Iterator[TreeLine]:
    """Yield all lines of a tree in the order of time; a session begins before its first line and ends after its last.

    Lines of one session stay in their order, whatever their clock says. Raises OSError.
    """
    waiting: list[tuple[float, int, Iterator[LogLine] | None, LogLine | None]] = []
    nodes = list(top.walk())
    left = {node.session_id: len(node.children) for node in nodes}
    by_id = {node.session_id: node for node in nodes}
    over: set[str] = set()

    def ends(node: LogNode) -> Iterator[TreeLine]:
        """End a session, and those above it that only waited for it."""
        at: LogNode | None = node
        while at is not None and at.session_id in over and left[at.session_id] == 0:
            yield TreeLine("ends", at)
            at = by_id.get(at.parent_id or "") if at is not top else None
            if at is not None:
                left[at.session_id] -= 1

    for number, node in enumerate(nodes):
        heapq.heappush(waiting, (node.started or 0.0, number, None, None))
    while waiting:
        at, number, lines, line = heapq.heappop(waiting)
        node = nodes[number]
        if lines is None:
            yield TreeLine("begins", node)
            lines = _lines(node)
        elif line is not None:
            yield TreeLine("line", node, line)
        following = next(lines, None)
        if following is not None:
            heapq.heappush(waiting, (max(at, _seconds(following) or at), number, lines, following))
        else:
            over.add(node.session_id)
            yield from ends(node)


def _lines(node: LogNode) -> Iterator[LogLine]:
    from amplifier_kit.log.reader import read_log

    return read_log(node.folder, on_torn=lambda torn: None) if node.folder is not None else iter(())


def _scan(node: LogNode) -> None:
    """Read the log of a session."""
    from amplifier_foundation.sessions.log import is_running
    from amplifier_foundation.usage.history import record_of
    from amplifier_kit.log.reader import read_log

    def on_torn(torn: Any) -> None:
        node.torn += 1

    assert node.folder is not None
    node.is_running = is_running(node.folder)
    turn = LastTurn()
    for line in read_log(node.folder, on_torn=on_torn):
        at = _seconds(line)
        if at is not None:
            node.started = at if node.started is None else node.started
            node.ended = at
        event = line.event
        if (used := record_of(line)) is not None:
            node.usage += used
        elif event in STARTED:
            node.is_begun, node.own_end = True, None
        elif event == "session:end":
            node.own_end = turn.ending(own_ending(_payload(line)))
        elif event in TURN_EVENTS:
            turn.add(event, _payload(line))
        elif event == "tool:pre":
            node.calls[str(line.data.get("tool_call_id"))] = (line.data.get("tool_name"), line.data.get("tool_input"))
        elif event in SPAWNED or event in CLOSED:
            _note_report(node, line, at or 0.0)
        elif event == "session:fork":
            metadata = line.data.get("metadata")
            if isinstance(metadata, dict):
                node.started_by = metadata.get("tool_call_id"), metadata.get("parallel_group_id")


def _note_report(node: LogNode, line: LogLine, at: float) -> None:
    data = _payload(line)
    call = data.get("tool_call_id")
    # A rejected child has no id: use that of the call.
    child = child_of(data) or f"{_REFUSED}{call}"
    known = node.reports.get(child, ParentReport(at=at))
    agent = data.get("agent") if isinstance(data.get("agent"), str) else known.agent
    if line.event in SPAWNED or not known.calls:
        tool, tool_input = node.calls.get(str(call), (None, None))
        made = Call(call, data.get("parallel_group_id"), tool, tool_input, at)
        is_again = any(before.tool_call_id == call for before in known.calls)  # after a crash, for the same child
        known = known._replace(calls=known.calls if is_again else (*known.calls, made), ending=None)
    if line.event in CLOSED:
        has_used = data.get("usage") is not None or data.get("cost_usd") is not None
        had_worked = len(known.calls) > 1 and not known.is_rejected
        is_rejected = line.event.endswith(":error") and not has_used and not had_worked
        known = known._replace(ending=reported_ending(line.event, data), is_rejected=is_rejected)
    node.reports[child] = known._replace(agent=agent)


def _payload(line: LogLine) -> dict[str, Any]:
    """Return the data of an event, with the fields that the log stores outside of it."""
    lifted = {key: value for key in ("status", "error") if (value := line.get(key)) is not None}
    return {**line.data, **lifted}


def _unrecorded(parent: LogNode, session_id: str, report: ParentReport) -> LogNode | None:
    """Return a child without metadata, because it crashed or the disk was full; its parent's log names it."""
    from amplifier_foundation.children.results import is_child_id
    from amplifier_foundation.sessions.metadata import read_summary

    if parent.folder is None or not is_child_id(session_id):
        return None
    found = read_summary(parent.folder.parent / session_id)
    if found is None or not found.is_child or found.parent_id is not None:
        return None
    return LogNode(session_id, found.folder, parent.session_id, report.agent)


def _missing(parent: LogNode, session_id: str, report: ParentReport) -> LogNode:
    """Return a session that only its parent's log mentions."""
    return LogNode(
        session_id,
        None,
        parent.session_id,
        report.agent,
        started=report.at,
        ended=report.at,
        by_parent=report,
        is_refused=report.is_rejected or session_id.startswith(_REFUSED),
    )


def _own_report(node: LogNode, parent: LogNode) -> ParentReport:
    """Return the call that a child's own log names, for tools that emit no events about their children."""
    call, group = node.started_by
    if call is None:
        return _NOTHING
    tool, tool_input = parent.calls.get(call, (None, None))
    return ParentReport(
        (Call(call, group, tool, tool_input, node.started or 0.0),), agent=node.agent, at=node.started or 0.0
    )


def _order(top: LogNode) -> None:
    """Sort children by start time; set their depth, and how many of the same agent started before."""
    seen = {top.session_id}
    todo = [top]
    while todo:
        node = todo.pop()
        # Damaged metadata may contain a cycle.
        node.children = [child for child in node.children if child.session_id not in seen]
        for child in node.children:
            seen.add(child.session_id)
            child.depth = node.depth + 1
            child.parent_id = node.session_id
            # An empty log, or one from another clock: it started when it was spawned, and not before its parent.
            child.started = max(child.started or child.by_parent.at, node.started or 0.0)
        node.children.sort(key=lambda child: (child.started or 0.0, child.session_id))
        todo += node.children
    counted: Counter[str | None] = Counter()
    for node in sorted(top.walk(), key=lambda one: one.started or 0.0):
        node.same_before = counted[node.agent]
        counted[node.agent] += 1


def _seconds(line: LogLine) -> float | None:
    try:
        moment = datetime.fromisoformat(line.ts or "")
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
