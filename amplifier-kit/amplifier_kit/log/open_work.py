"""Track what a log has the start of but not the end, and write the missing ends.

An end may be missing because a hook hangs and the session is stopped, or because the process was killed. A child
session may outlive the turn that started it, so its end is awaited as long as its parent session lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from amplifier_core.events import (
    EXECUTION_END,
    EXECUTION_START,
    ORCHESTRATOR_COMPLETE,
    PROMPT_COMPLETE,
    PROMPT_SUBMIT,
    SESSION_END,
    SESSION_RESUME,
    SESSION_START,
    TOOL_ERROR,
    TOOL_POST,
    TOOL_PRE,
)
from amplifier_kit.named_tuple import NamedTuple

Write = Callable[[str, dict[str, Any]], None]

_SESSION: Final = frozenset({SESSION_START, SESSION_RESUME})
_TURN: Final = frozenset({EXECUTION_START, PROMPT_SUBMIT})
_TURN_ENDS: Final = (PROMPT_COMPLETE, ORCHESTRATOR_COMPLETE, EXECUTION_END)


class _Kind(NamedTuple):
    """A kind of work inside a turn, of which several pieces may run at once."""

    #: The fields that identify a piece: the same child may be called again while it works.
    key: tuple[str, ...]
    #: The event to write when the end is missing.
    end: str
    #: The fields of the start that its end repeats.
    kept: tuple[str, ...]


_TOOL: Final = _Kind(("tool_call_id",), TOOL_ERROR, ("tool_name", "tool_call_id", "parallel_group_id"))
_CHILDREN: Final = {
    tool: _Kind(
        ("sub_session_id", "tool_call_id"),
        f"{tool}:agent_cancelled",
        ("agent", "sub_session_id", "parent_session_id", "tool_call_id", "parallel_group_id"),
    )
    for tool in ("delegate", "task")
}
_STARTS: Final = {TOOL_PRE: _TOOL} | {
    f"{tool}:{start}": child for tool, child in _CHILDREN.items() for start in ("agent_spawned", "agent_resumed")
}
_ENDS: Final = {TOOL_POST: _TOOL, TOOL_ERROR: _TOOL} | {
    f"{tool}:{end}": child
    for tool, child in _CHILDREN.items()
    for end in ("agent_completed", "agent_cancelled", "error")
}

#: The events that `OpenWork.note` needs.
TRACKED: Final = frozenset({*_SESSION, SESSION_END, *_TURN, *_TURN_ENDS, *_STARTS, *_ENDS})
_IDS: Final = ("session_id", "parent_id", "trace_id", "turn_id", "span_id", "parent_span_id")
#: The key of the payload that marks an end as written by the log, with the name of the writer.
WRITTEN_BY: Final = "written_by"


class _Work(NamedTuple):
    """One piece of work, identified by its kind and the values of `kind.key`; None where an event has none."""

    kind: _Kind
    ids: tuple[str | None, ...]

    @classmethod
    def of(cls, kind: _Kind, data: Mapping[str, Any]) -> _Work:
        ids = (data.get(key) for key in kind.key)
        return cls(kind, tuple(name if isinstance(name, str) else None for name in ids))

    @property
    def is_child(self) -> bool:
        return self.kind is not _TOOL


class _Start(NamedTuple):
    fields: dict[str, Any]
    at: float


class OpenWork:
    """The session, turn, tool calls and children that one log has the start of but not the end."""

    def __init__(
        self, by: str, write: Write, status: Callable[[], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`write` writes an end in the name of `by`, `status` returns the session's status, `clock` seconds."""
        self._by = by
        self._write = write
        self._status = status
        self._clock = clock
        self._session: _Start | None = None
        self._turn: dict[str, _Start] = {}
        self._turn_ends: set[str] = set()
        self._work: dict[_Work, _Start] = {}
        #: The children whose ends were written here.
        self._closed: set[_Work] = set()

    def note(self, event: str, data: Mapping[str, Any]) -> bool:
        """Take an event of `TRACKED` into account before it is written; ends that are overdue are written first.

        Returns False if it must not be written: the end of a child that has one already.
        """
        if (kind := _STARTS.get(event)) is not None:
            self._note_start(_Work.of(kind, data), data)
        elif (kind := _ENDS.get(event)) is not None:
            return self._note_end(_Work.of(kind, data))
        elif event in _TURN:
            if event == EXECUTION_START or event in self._turn:
                self.end_turn()
            self._turn[event] = self._start(data)
        elif event in _TURN_ENDS:
            self._turn_ends.add(event)
            if event == EXECUTION_END:
                self._end_work(self._tool_calls())
                self._forget_turn()
        elif event in _SESSION:
            self._work.clear()  # of an earlier process: children that still work are announced again
            self._session = self._start(data)
        else:
            self._end_work(self._work)
            self.end_turn()
            self._session = None
        return True

    def _note_start(self, work: _Work, data: Mapping[str, Any]) -> None:
        if not work.ids[0]:
            return
        if work.is_child and work in self._work:
            self._end_work([work])
        self._closed.discard(work)
        self._work[work] = self._start(data, work.kind.kept)

    def _note_end(self, work: _Work) -> bool:
        if work not in self._work and not work.ids[-1]:
            # An end without the id of its call belongs to the only work with its first id.
            known = [one for one in (*self._work, *self._closed) if one.kind is work.kind and one.ids[0] == work.ids[0]]
            work = known[0] if len(known) == 1 else work
        self._work.pop(work, None)
        return work not in self._closed

    @property
    def children(self) -> list[str]:
        """The ids of the child sessions that are at work."""
        return list(dict.fromkeys(work.ids[0] or "" for work in self._work if work.is_child))

    def end_turn(self) -> None:
        """Write the missing ends of a turn: of its tool calls, and its own."""
        self._end_work(self._tool_calls())
        for event, start in self._missing_turn_ends():
            self._write_end(event, start, {"response": ""} if event == EXECUTION_END else {})
        self._forget_turn()

    def end(self) -> None:
        """Write every missing end: no more events will come."""
        self._end_work(self._work)
        self.end_turn()
        start, self._session = self._session, None
        if start is not None:
            self._write(SESSION_END, {**start.fields, "status": self._status(), **self._mark(SESSION_END)})

    def _missing_turn_ends(self) -> Iterator[tuple[str, _Start]]:
        execution, prompt = self._turn.get(EXECUTION_START), self._turn.get(PROMPT_SUBMIT)
        if execution is None:
            if prompt is not None and not self._turn_ends:  # any one of them ends the turn of a loop without executions
                yield PROMPT_COMPLETE, prompt
            return
        if prompt is not None:
            yield from ((event, prompt) for event in _TURN_ENDS[:2] if event not in self._turn_ends)
        yield EXECUTION_END, execution

    def _forget_turn(self) -> None:
        self._turn.clear()
        self._turn_ends.clear()

    def _tool_calls(self) -> list[_Work]:
        return [work for work in self._work if not work.is_child]

    def _end_work(self, over: Iterable[_Work]) -> None:
        for work in reversed(list(over)):
            start = self._work.pop(work)
            if work.is_child:
                self._closed.add(work)
            self._write_end(
                work.kind.end, start, {"error": {"type": self._ending(), "msg": "its end was not recorded"}}
            )

    def _write_end(self, event: str, start: _Start, fields: dict[str, Any]) -> None:
        duration = round((self._clock() - start.at) * 1000, 3)
        facts = {"status": self._ending(), "duration_ms": duration}
        self._write(event, {**start.fields, **fields, **facts, **self._mark(event)})

    def _ending(self) -> str:
        return "cancelled" if self._status() == "cancelled" else "incomplete"

    def _start(self, data: Mapping[str, Any], kept: tuple[str, ...] = ()) -> _Start:
        return _Start({key: data[key] for key in (*_IDS, *kept) if data.get(key) is not None}, self._clock())

    def _mark(self, event: str) -> dict[str, Any]:
        return {WRITTEN_BY: self._by, "message": f"{event} was not recorded; the log adds it"}
