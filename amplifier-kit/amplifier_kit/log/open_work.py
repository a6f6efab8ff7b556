"""Know what a log has the beginning of and not the end, and write that end when nobody else will.

An event reaches the log after every hook with a lower priority. When one of them hangs and the session is stopped, what
it hung in never comes there; a hook that denies an event keeps it from everybody behind it too; and the log of a
process that is gone ends wherever it was.

A child may outlive the turn that started it: one that does not let itself be stopped is told of when it is down. So its
end is awaited as long as its session lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

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

Write = Callable[[str, dict[str, Any]], None]

_SESSION: Final = frozenset({SESSION_START, SESSION_RESUME})
_TURN: Final = frozenset({EXECUTION_START, PROMPT_SUBMIT})
_ENDS_OF_TURN: Final = (PROMPT_COMPLETE, ORCHESTRATOR_COMPLETE, EXECUTION_END)


class _Kind(NamedTuple):
    """Work inside a turn, of which there may be several pieces at once."""

    #: What tells one from the others: the same child may be asked again while it works.
    key: tuple[str, ...]
    #: What is written when its end does not come.
    end: str
    #: What of its beginning stands in its end too.
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

#: The events that say anything here; others need not be shown.
TRACKED: Final = frozenset({*_SESSION, SESSION_END, *_TURN, *_ENDS_OF_TURN, *_STARTS, *_ENDS})
_IDS: Final = ("session_id", "parent_id", "trace_id", "turn_id", "span_id", "parent_span_id")
#: The key of the payload that tells an end which was never emitted, with who has written it.
WRITTEN_BY: Final = "written_by"


class _Work(NamedTuple):
    """One piece of work, by what tells it from the others; without a name when its event does not say."""

    kind: _Kind
    names: tuple[str | None, ...]

    @classmethod
    def of(cls, kind: _Kind, data: Mapping[str, Any]) -> _Work:
        """Return the one that an event tells of."""
        told = (data.get(key) for key in kind.key)
        return cls(kind, tuple(name if isinstance(name, str) else None for name in told))

    @property
    def name(self) -> str:
        """Return the id of the call, or of the child."""
        return self.names[0] or ""

    @property
    def is_child(self) -> bool:
        """Tell whether it is a session of its own."""
        return self.kind is not _TOOL


class _Begun(NamedTuple):
    facts: dict[str, Any]
    at: float


class OpenWork:
    """What one session has begun and not ended, as far as its log was told."""

    def __init__(
        self, by: str, write: Write, status: Callable[[], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`write` writes a line in the name of `by`, `status` tells how the session stands, `clock` the seconds."""
        self._by = by
        self._write = write
        self._status = status
        self._clock = clock
        self._session: _Begun | None = None
        self._turn: dict[str, _Begun] = {}
        self._ended: set[str] = set()
        self._work: dict[_Work, _Begun] = {}
        #: The children whose ends were written here.
        self._closed: set[_Work] = set()

    def note(self, event: str, data: Mapping[str, Any]) -> bool:
        """Take in an event of `TRACKED` before it is written; ends that are overdue by then are written first.

        Returns False when it is not to be written: the end of a child that has one already.
        """
        if event == SESSION_END:
            self._end_work(self._work)
        if event in (EXECUTION_START, SESSION_END) or (event == PROMPT_SUBMIT and event in self._turn):
            self.end_turn()
        if event in _SESSION:
            self._work.clear()  # of a process that is gone: the children that were at work there are told anew
            self._session = self._begun(data, ())
        elif event == SESSION_END:
            self._session = None
        elif event in _TURN:
            self._turn[event] = self._begun(data, ())
        elif event in _ENDS_OF_TURN:
            self._note_end_of_turn(event)
        elif (kind := _STARTS.get(event)) is not None:
            self._note_start(_Work.of(kind, data), data)
        elif (kind := _ENDS.get(event)) is not None:
            return self._note_end(_Work.of(kind, data))
        return True

    def _note_start(self, work: _Work, data: Mapping[str, Any]) -> None:
        if not work.name:
            return
        if work.is_child and work in self._work:
            self._end_work([work])
        self._closed.discard(work)
        self._work[work] = self._begun(data, work.kind.kept)

    def _note_end(self, work: _Work) -> bool:
        meant = self._meant(work)
        self._work.pop(meant, None)
        return meant not in self._closed

    def _meant(self, work: _Work) -> _Work:
        """Return the work that an end is of; one that does not name its call is of the only one with its id."""
        if work in self._work or work.names[-1]:
            return work
        same = [one for one in (*self._work, *self._closed) if one.kind is work.kind and one.name == work.name]
        return same[0] if len(same) == 1 else work

    def _note_end_of_turn(self, event: str) -> None:
        self._ended.add(event)
        if event == EXECUTION_END:
            self._end_work(self._of_turn())
            self._forget_turn()

    @property
    def children(self) -> list[str]:
        """Return the sessions below this one that are at work."""
        return list(dict.fromkeys(work.name for work in self._work if work.is_child))

    @property
    def is_any(self) -> bool:
        """Tell whether an end is lacking."""
        return self._session is not None or bool(self._turn or self._work)

    def end_turn(self) -> None:
        """Write what a turn that is over lacks: the ends of its tools, and its own."""
        self._end_work(self._of_turn())
        for event, begun in self._lacking():
            response = {"response": ""} if event == EXECUTION_END else {}
            self._close(event, begun, response)
        self._forget_turn()

    def end(self) -> None:
        """Write everything that is lacking; nothing more will come."""
        self._end_work(self._work)
        self.end_turn()
        begun, self._session = self._session, None
        if begun is not None:
            self._write(SESSION_END, {**begun.facts, "status": self._status(), **self._mark(SESSION_END)})

    def _lacking(self) -> Iterator[tuple[str, _Begun]]:
        """Yield the ends that a turn lacks; a loop that tells one of them only has told the end of its turn."""
        execution, prompt = self._turn.get(EXECUTION_START), self._turn.get(PROMPT_SUBMIT)
        if execution is None:
            if prompt is not None and not self._ended:
                yield PROMPT_COMPLETE, prompt
            return
        if prompt is not None:
            yield from ((event, prompt) for event in _ENDS_OF_TURN[:2] if event not in self._ended)
        yield EXECUTION_END, execution

    def _forget_turn(self) -> None:
        self._turn.clear()
        self._ended.clear()

    def _of_turn(self) -> list[_Work]:
        """Return the work that ends with its turn at the latest."""
        return [work for work in self._work if not work.is_child]

    def _end_work(self, over: Iterable[_Work]) -> None:
        for work in reversed(list(over)):
            begun = self._work.pop(work)
            if work.is_child:
                self._closed.add(work)
            error = {"type": self._ending(), "msg": "nothing was heard of its end"}
            self._close(work.kind.end, begun, {"error": error})

    def _close(self, event: str, begun: _Begun, facts: dict[str, Any]) -> None:
        duration = round((self._clock() - begun.at) * 1000, 3)
        told = {**begun.facts, **facts, "status": self._ending(), "duration_ms": duration}
        self._write(event, {**told, **self._mark(event)})

    def _ending(self) -> str:
        return "cancelled" if self._status() == "cancelled" else "incomplete"

    def _begun(self, data: Mapping[str, Any], kept: tuple[str, ...]) -> _Begun:
        return _Begun({key: data[key] for key in (*_IDS, *kept) if data.get(key) is not None}, self._clock())

    def _mark(self, event: str) -> dict[str, Any]:
        return {WRITTEN_BY: self._by, "message": f"{event} was not heard to its end"}
