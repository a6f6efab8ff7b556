"""Know whose turn, span, mount or callback is running, and stamp its ids and the time on events.

One contextvar holds the innermost scope. Parallel tool calls, turns of other sessions and tasks started meanwhile each
carry their own, because asyncio copies the context when it starts a task. Ids are W3C trace-context ids: 16 bytes of
hex for traces and turns, 8 for spans.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import UTC, datetime
from os import urandom
from time import time_ns
from types import TracebackType
from typing import Any


class Scope:
    """Describe what is running, for the length of a `with` block; linked to the scope around it."""

    __slots__ = (
        *("before", "module", "name", "opener", "outer", "owner"),
        *("parent_span_id", "span_id", "trace_id", "turn_id", "wave"),
    )

    def __init__(self, owner: Any, outer: Scope | None, name: str = "") -> None:
        """Inherit everything from the innermost scope of the same coordinator, if there is one."""
        mine = _innermost(owner, outer) if outer is not None else None
        self.owner: Any = owner
        self.name = name
        #: The scope around this one, for a search for another owner's. One of the same owner is left out: it adds
        #: nothing, and a turn that starts the next one would keep all the earlier ones alive.
        self.outer: Scope | None = outer.outer if outer is not None and outer is mine else outer
        #: The span that opened this scope, if it was not entered itself, and the scope that was innermost before.
        self.opener: Span | None = None
        self.before: Scope | None = None
        self.turn_id: str | None = None
        self.trace_id: str | None = None
        self.span_id: str | None = None
        self.parent_span_id: str | None = None
        #: The module that is mounting or getting ready, which owns what is registered meanwhile.
        self.module: str | None = None
        #: The mount wave under way, if any.
        self.wave: Any = None
        if mine is not None:
            self.turn_id, self.trace_id = mine.turn_id, mine.trace_id
            self.span_id, self.parent_span_id = mine.span_id, mine.parent_span_id
            self.module, self.wave = mine.module, mine.wave

    def __enter__(self) -> Scope:
        self.before = _scope.get()
        _scope.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _leave(self)


_scope: ContextVar[Scope | None] = ContextVar("amplifier_scope", default=None)
current_scope = _scope.get


def _leave(opener: Scope | Span) -> None:
    """Restore the scope that was innermost before `opener` was entered last."""
    # Found, not reset by token: a generator may be closed in another context than it was started in, or after
    # blocks that it opened were left open. A context that never entered keeps its innermost scope.
    scope = _scope.get()
    while scope is not None and scope is not opener and scope.opener is not opener:
        scope = scope.before
    if scope is not None:
        _scope.set(scope.before)
        scope.before = None


def _innermost(owner: Any, scope: Scope | None) -> Scope | None:
    while scope is not None and scope.owner is not owner:
        scope = scope.outer
    return scope


def _traced(scope: Scope | None) -> Scope | None:
    while scope is not None and scope.trace_id is None:
        scope = scope.outer
    return scope


def scope_of(owner: Any) -> Scope | None:
    """Return the innermost scope that belongs to `owner`, or None."""
    return _innermost(owner, _scope.get())


def traced_scope() -> Scope | None:
    """Return the innermost scope with an open span, of any owner, or None."""
    return _traced(_scope.get())


def identity_fields(owner: Any) -> dict[str, str] | None:
    """Return the ids that an event of `owner` carries now, or None outside every turn and span."""
    scope = _innermost(owner, _scope.get())
    if scope is None or scope.span_id is None:
        return None
    fields = {"trace_id": scope.trace_id, "span_id": scope.span_id}
    if scope.turn_id is not None:
        fields["turn_id"] = scope.turn_id
    if scope.parent_span_id is not None:
        fields["parent_span_id"] = scope.parent_span_id
    return fields  # type: ignore[return-value]  # an open span always has a trace


class Span:
    """Open a child span of what is running when the block starts; every block gets new ids."""

    __slots__ = ("_name", "_owner")

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name

    def __enter__(self) -> Scope:
        outer = _scope.get()
        span = Scope(self._owner, outer, self._name)
        span.opener = self
        around = span if span.trace_id is not None else _traced(outer)
        if around is not None:
            span.trace_id, span.parent_span_id = around.trace_id, around.span_id
        else:
            span.trace_id = urandom(16).hex()
        span.span_id = urandom(8).hex()
        return span.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _leave(self)

    async def __aenter__(self) -> Scope:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _leave(self)


def open_turn(owner: Any, spawned_in: str | None) -> Scope:
    """Return the scope of one turn of `owner`.

    A turn that runs inside another session's turn belongs to that trace, under the span that is open there; else it
    continues the trace it was spawned in, if any; else it starts one.
    """
    outer = _scope.get()
    turn = Scope(owner, outer, "turn")
    around = _traced(outer)
    ids = urandom(24).hex()  # one call to the system for both
    turn.turn_id, turn.span_id = ids[:32], ids[32:]
    turn.trace_id = around.trace_id if around is not None else spawned_in or turn.turn_id
    turn.parent_span_id = around.span_id if around is not None else None
    turn.module = None
    return turn


def open_module(owner: Any, module: str | None, wave: Any = None) -> Scope:
    """Return the scope in which a module of `owner` mounts, gets ready or is called back."""
    scope = Scope(owner, _scope.get(), module or "")
    scope.module = module
    if wave is not None:
        scope.wave = wave
    return scope


#: The last second that was formatted, and its text: events come in bursts, and formatting a date costs more than the
#: rest of a stamp.
_second = (0, "")


def timestamp() -> str:
    """Return now as UTC ISO 8601 with microseconds, ending `+00:00`, as every event and record states it."""
    global _second
    microseconds = time_ns() // 1000
    second = microseconds // 1_000_000
    known, text = _second
    if second != known:
        text = datetime.fromtimestamp(second, UTC).isoformat()[:19]
        _second = (second, text)
    return f"{text}.{str(microseconds)[-6:]}+00:00"
