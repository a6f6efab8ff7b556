"""Know, at every moment, whose turn, span, mount or callback is running.

One contextvar holds the innermost scope. Parallel tool calls, turns of other sessions and tasks started meanwhile each
carry their own, because asyncio copies the context when it starts a task. Ids are W3C trace-context ids: 16 bytes of
hex for traces and turns, 8 for spans.
"""

from __future__ import annotations

from contextvars import ContextVar
from os import urandom
from types import TracebackType
from typing import Any


class Scope:
    """Describe what is running; immutable by convention, linked to the scope around it."""

    __slots__ = ("module", "name", "outer", "owner", "parent_span_id", "span_id", "trace_id", "turn_id", "wave")

    def __init__(self, owner: Any, outer: Scope | None, *, name: str = "") -> None:
        """Inherit everything from the scope around it, when that belongs to the same coordinator."""
        self.owner: Any = owner
        same = outer is not None and outer.owner is owner
        self.outer = outer
        self.name = name
        self.turn_id: str | None = outer.turn_id if outer is not None and same else None
        self.trace_id: str | None = outer.trace_id if outer is not None and same else None
        self.span_id: str | None = outer.span_id if outer is not None and same else None
        self.parent_span_id: str | None = outer.parent_span_id if outer is not None and same else None
        #: The module that is mounting or getting ready: what is registered meanwhile is its own.
        self.module: str | None = outer.module if outer is not None and same else None
        #: The mount wave under way, if any.
        self.wave: Any = outer.wave if outer is not None and same else None


_scope: ContextVar[Scope | None] = ContextVar("amplifier_scope", default=None)
current_scope = _scope.get


def scope_of(owner: Any) -> Scope | None:
    """Return the innermost scope that belongs to `owner`, or None."""
    scope = _scope.get()
    while scope is not None and scope.owner is not owner:
        scope = scope.outer
    return scope


def identity_fields(owner: Any) -> dict[str, str] | None:
    """Return the ids that an event of `owner` carries now, or None outside every turn and span."""
    scope = scope_of(owner)
    if scope is None or scope.span_id is None:
        return None
    fields = {"trace_id": scope.trace_id, "span_id": scope.span_id}
    if scope.turn_id is not None:
        fields["turn_id"] = scope.turn_id
    if scope.parent_span_id is not None:
        fields["parent_span_id"] = scope.parent_span_id
    return fields  # type: ignore[return-value]  # an open span always has a trace


class Entered:
    """Make a scope the innermost one for the length of a `with` or `async with` block."""

    __slots__ = ("_before", "scope")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._before: Scope | None = None

    def __enter__(self) -> Scope:
        self._before = _scope.get()
        _scope.set(self.scope)
        return self.scope

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Set, not reset by token: a generator may be closed in another context than it was started in.
        _scope.set(self._before)

    async def __aenter__(self) -> Scope:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def open_turn(owner: Any, spawned_in: str | None) -> Entered:
    """Open the scope of one turn of `owner`.

    A turn that runs inside another session's turn belongs to that trace, under the span that is open there; else it
    continues the trace it was spawned in, if any; else it starts one.
    """
    outer = _scope.get()
    turn = Scope(owner, outer, name="turn")
    turn.turn_id = urandom(16).hex()
    inherited = outer.trace_id if outer is not None else None
    turn.trace_id = inherited or spawned_in or turn.turn_id
    turn.parent_span_id = outer.span_id if outer is not None and inherited else None
    turn.span_id = urandom(8).hex()
    turn.module = None
    return Entered(turn)


def open_span(owner: Any, name: str) -> Entered:
    """Open a child span of what is running, in a trace of its own when nothing is."""
    outer = scope_of(owner) or _scope.get()
    span = Scope(owner, _scope.get(), name=name)
    if outer is not None:
        span.turn_id = outer.turn_id if outer.owner is owner else None
        span.parent_span_id = outer.span_id
        span.trace_id = outer.trace_id
    span.trace_id = span.trace_id or urandom(16).hex()
    span.span_id = urandom(8).hex()
    return Entered(span)


def open_module(owner: Any, module: str | None, wave: Any = None) -> Entered:
    """Open the scope in which a module of `owner` mounts, gets ready or is called back."""
    scope = Scope(owner, _scope.get(), name=module or "")
    scope.module = module
    if wave is not None:
        scope.wave = wave
    return Entered(scope)
