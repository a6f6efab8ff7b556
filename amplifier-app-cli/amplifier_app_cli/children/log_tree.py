"""Read the logs of a session and of all that it started as one tree.

A log is read twice: once for what came of the session, and once line by line in the order of time. Nothing of it is
held in memory but the sums, and only those logs are open at a time whose sessions ran at the same time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amplifier_app_cli.children.endings import (
    BEGUN,
    CLOSED,
    OF_TURN,
    SPAWNED,
    Ending,
    LastTurn,
    child_of,
    own_ending,
    settled,
    told_ending,
)
from amplifier_kit.engine.usage import UsageRecord

if TYPE_CHECKING:
    from amplifier_foundation.sessions.metadata import SessionSummary
    from amplifier_kit.log import LogLine


class Call(NamedTuple):
    """A call that started a session, or had it go on."""

    tool_call_id: str | None
    parallel_group_id: str | None
    tool: str | None
    tool_input: Any
    at: float


class Told(NamedTuple):
    """What a session says of one that it started."""

    calls: tuple[Call, ...] = ()
    ending: Ending | None = None
    agent: str | None = None
    at: float = 0.0
    #: Whether the call came to nothing, as far as its event says: a child that worked has used something.
    is_in_vain: bool = False


_NOTHING = Told()
#: Begins what stands for the id of a child that a call did not get; no id of a session has a blank.
_REFUSED = "refused by call "


@dataclass
class LogNode:
    """One session of the tree."""

    session_id: str
    #: None when there is no such folder: it was refused, or somebody deleted it.
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
    #: What it says of those that it started, by their ids.
    told: dict[str, Told] = field(default_factory=dict)
    #: What its parent says of it.
    by_parent: Told = _NOTHING
    #: The call that its own log names, and its group.
    started_by: tuple[str | None, str | None] = (None, None)
    #: The tools of its calls and their input, by the ids of the calls.
    calls: dict[str, tuple[str | None, Any]] = field(default_factory=dict)
    #: Whether a call asked for it in vain: there never was such a session.
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
        return settled(self.own_end, self.by_parent.ending, is_begun=self.is_begun, is_running=self.is_running)

    @property
    def name(self) -> str:
        """Return what to call it: its agent, with a number when it is not the first one; else that it is a session."""
        name = self.agent or ("agent" if self.depth else "session")
        return f"{name} {self.same_before + 1}" if self.same_before else name

    def walk(self) -> Iterator[LogNode]:
        """Yield it and all below, each before those that it started."""
        todo = [self]
        while todo:
            node = todo.pop()
            yield node
            todo += node.children[::-1]

    def tree_usage(self) -> UsageRecord:
        """Return what it and all below have used."""
        return sum((node.usage for node in self.walk()), UsageRecord())


class TreeLine(NamedTuple):
    """One line of the tree: of a session's log, or that it begins (`begins`) or is over (`ends`)."""

    kind: str
    node: LogNode
    line: LogLine | None = None


def read_tree(root: SessionSummary, descendants: Sequence[SessionSummary]) -> LogNode:
    """Return the tree of a session, with what its logs say of each; raises OSError."""
    nodes = {one.id: LogNode(one.id, one.folder, one.parent_id, one.agent_name) for one in (root, *descendants)}
    waiting = list(nodes.values())
    while waiting:
        node = waiting.pop()
        _scan(node)
        found = [_nameless(node, one, told) for one, told in node.told.items() if one not in nodes]
        waiting += (adopted := [one for one in found if one is not None])
        nodes |= {one.session_id: one for one in adopted}
    top = nodes[root.id]
    for node in list(nodes.values()):
        parent = nodes.get(node.parent_id or "")
        if node is not top and parent is not None:
            parent.children.append(node)
            node.by_parent = parent.told.get(node.session_id) or _told_by_itself(node, parent)
    for node in list(nodes.values()):
        node.children += [_absent(node, one, told) for one, told in node.told.items() if one not in nodes]
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
    from amplifier_kit.log import read_log

    return read_log(node.folder, on_torn=lambda torn: None) if node.folder is not None else iter(())


def _scan(node: LogNode) -> None:
    """Read what came of a session."""
    from amplifier_foundation.sessions.log import is_running
    from amplifier_foundation.usage.history import record_of
    from amplifier_kit.log import read_log

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
        elif event in BEGUN:
            node.is_begun, node.own_end = True, None
        elif event == "session:end":
            node.own_end = turn.ending(own_ending(_payload(line)))
        elif event in OF_TURN:
            turn.hear(event, _payload(line))
        elif event == "tool:pre":
            node.calls[str(line.data.get("tool_call_id"))] = (line.data.get("tool_name"), line.data.get("tool_input"))
        elif event in SPAWNED or event in CLOSED:
            _note_told(node, line, at or 0.0)
        elif event == "session:fork":
            told = line.data.get("metadata")
            if isinstance(told, dict):
                node.started_by = told.get("tool_call_id"), told.get("parallel_group_id")


def _note_told(node: LogNode, line: LogLine, at: float) -> None:
    data = _payload(line)
    call = data.get("tool_call_id")
    # A child that was refused has no id; the call that wanted it stands for it.
    child = child_of(data) or f"{_REFUSED}{call}"
    known = node.told.get(child, Told(at=at))
    agent = data.get("agent") if isinstance(data.get("agent"), str) else known.agent
    if line.event in SPAWNED or not known.calls:
        tool, tool_input = node.calls.get(str(call), (None, None))
        made = Call(call, data.get("parallel_group_id"), tool, tool_input, at)
        is_again = any(before.tool_call_id == call for before in known.calls)  # after a crash, for the same child
        known = known._replace(calls=known.calls if is_again else (*known.calls, made), ending=None)
    if line.event in CLOSED:
        has_used = data.get("usage") is not None or data.get("cost_usd") is not None
        had_worked = len(known.calls) > 1 and not known.is_in_vain
        is_in_vain = line.event.endswith(":error") and not has_used and not had_worked
        known = known._replace(ending=told_ending(line.event, data), is_in_vain=is_in_vain)
    node.told[child] = known._replace(agent=agent)


def _payload(line: LogLine) -> dict[str, Any]:
    """Return what an event says, with the facts that the log has lifted out of it."""
    lifted = {key: value for key in ("status", "error") if (value := line.get(key)) is not None}
    return {**line.data, **lifted}


def _nameless(parent: LogNode, session_id: str, told: Told) -> LogNode | None:
    """Return a child that only its parent knows to be one: it was cut off, or the disk full, before it had notes."""
    from amplifier_foundation.children.results import is_child_id
    from amplifier_foundation.sessions.metadata import read_summary

    if parent.folder is None or not is_child_id(session_id):
        return None
    found = read_summary(parent.folder.parent / session_id)
    if found is None or not found.is_child or found.parent_id is not None:
        return None
    return LogNode(session_id, found.folder, parent.session_id, told.agent)


def _absent(parent: LogNode, session_id: str, told: Told) -> LogNode:
    """Return a session of which nothing but its parent's word is left."""
    return LogNode(
        session_id,
        None,
        parent.session_id,
        told.agent,
        started=told.at,
        ended=told.at,
        by_parent=told,
        is_refused=told.is_in_vain or session_id.startswith(_REFUSED),
    )


def _told_by_itself(node: LogNode, parent: LogNode) -> Told:
    """Return the call that a child names itself, for tools that tell nothing of the sessions they start."""
    call, group = node.started_by
    if call is None:
        return _NOTHING
    tool, tool_input = parent.calls.get(call, (None, None))
    return Told((Call(call, group, tool, tool_input, node.started or 0.0),), agent=node.agent, at=node.started or 0.0)


def _order(top: LogNode) -> None:
    """Put children in the order they began, and say how deep each lies, and how many were called the same before."""
    seen = {top.session_id}
    todo = [top]
    while todo:
        node = todo.pop()
        # Damaged notes may make a circle: nobody is below himself.
        node.children = [child for child in node.children if child.session_id not in seen]
        for child in node.children:
            seen.add(child.session_id)
            child.depth = node.depth + 1
            child.parent_id = node.session_id
            # A log without a line, or one of another clock: it began when it was started, and not before its parent.
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
