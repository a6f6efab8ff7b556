"""Know which session's code is running, in whose name, turn and span; stamp its ids and the time on events.

One contextvar holds the innermost scope. Parallel tool calls, turns of other sessions and tasks started meanwhile each
carry their own, because asyncio copies the context when it starts a task. Ids are W3C trace-context ids: 16 bytes of
hex for traces and turns, 8 for spans.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import UTC, datetime
from os import urandom
from time import time_ns
from typing import Any

Ids = dict[str, str]
_NO_IDS: Ids = {}


class Scope:
    """Describe the running code for the length of a `with` block; linked to the scope around it."""

    __slots__ = ("before", "component", "ids", "is_mounting", "module", "name", "outer", "owner", "wave")

    def __init__(self, owner: Any, outer: Scope | None, name: str = "") -> None:
        """Inherit everything from the innermost scope of the same coordinator, if there is one."""
        self.owner: Any = owner
        self.name = name
        #: The scope that was innermost before this one was entered.
        self.before: Scope | None = None
        #: The scope around this one, for a search for another owner's. One of the same owner is left out: it adds
        #: nothing, and a turn that starts the next one would keep all the earlier ones alive.
        self.outer: Scope | None = outer
        mine = outer
        while mine is not None and mine.owner is not owner:
            mine = mine.outer
        if mine is None:
            #: The ids that events carry here, by name; never changed.
            self.ids = _NO_IDS
            #: Who acts: kernel, orchestrator, provider, tool, hook, context or app, and the id of the module.
            self.component = "app"
            self.module: str | None = None
            #: Whether the module is mounting or getting ready, and so owns the registrations made here.
            self.is_mounting = False
            #: The mount wave under way, if any.
            self.wave: Any = None
            return
        if mine is outer:
            self.outer = mine.outer
        self.ids = mine.ids
        self.component = mine.component
        self.module = mine.module
        self.is_mounting = mine.is_mounting
        self.wave = mine.wave

    @property
    def trace_id(self) -> str | None:
        return self.ids.get("trace_id")

    @property
    def span_id(self) -> str | None:
        return self.ids.get("span_id")

    @property
    def turn_id(self) -> str | None:
        return self.ids.get("turn_id")

    @property
    def parent_span_id(self) -> str | None:
        return self.ids.get("parent_span_id")

    def __enter__(self) -> Scope:
        self.before = _scope.get()
        _scope.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        # Found, not reset by token: a generator may be closed in another context than it was started in, or after
        # blocks that it opened were left open. A context that never entered keeps its innermost scope.
        scope = _scope.get()
        while scope is not None and scope is not self:
            scope = scope.before
        if scope is not None:
            _scope.set(scope.before)
            scope.before = None

    async def __aenter__(self) -> Scope:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()


_scope: ContextVar[Scope | None] = ContextVar("amplifier_scope", default=None)
current_scope = _scope.get


def scope_of(owner: Any) -> Scope | None:
    """Return the innermost scope that belongs to `owner`, or None."""
    scope = _scope.get()
    while scope is not None and scope.owner is not owner:
        scope = scope.outer
    return scope


def traced_scope() -> Scope | None:
    """Return the innermost scope with an open span, of any owner, or None."""
    scope = _scope.get()
    while scope is not None and not scope.ids:
        scope = scope.outer
    return scope


def acting(owner: Any, component: str, module: str | None = None, name: str = "") -> Scope:
    """Return a scope in which events, records and registrations are attributed to a component and a module."""
    scope = Scope(owner, _scope.get(), name)
    scope.component = component
    scope.module = module
    scope.is_mounting = False
    return scope


def open_module(owner: Any, module: str | None, wave: Any = None, component: str = "app") -> Scope:
    """Return the scope in which a module of `owner` mounts or gets ready; without one, nothing is mounting there."""
    scope = Scope(owner, _scope.get(), module or "")
    scope.is_mounting = module is not None
    if module is not None:
        scope.component, scope.module = component, module
    if wave is not None:
        scope.wave = wave
    return scope


def open_span(owner: Any, name: str) -> Scope:
    """Return the scope of a child span of the span that is open here, or of a new trace."""
    span = Scope(owner, _scope.get(), name)
    around = span if span.ids else traced_scope()
    trace_id = around.ids["trace_id"] if around is not None else urandom(16).hex()
    ids = {**span.ids, "trace_id": trace_id, "span_id": urandom(8).hex()}  # and the turn, which is this session's own
    if around is not None:
        ids["parent_span_id"] = around.ids["span_id"]
    span.ids = ids
    return span


def open_turn(owner: Any, spawned_in: str | None, component: str = "kernel", module: str | None = None) -> Scope:
    """Return the scope of one turn of `owner`, in which a component acts.

    A turn that runs inside another session's turn belongs to that trace, under the span that is open there; else it
    continues the trace it was spawned in, if any; else it starts one.
    """
    turn = acting(owner, component, module, "turn")
    around = traced_scope()
    ids = urandom(24).hex()  # one call to the system for both
    turn_id, span_id = ids[:32], ids[32:]
    trace_id = around.ids["trace_id"] if around is not None else spawned_in or turn_id
    turn.ids = {"trace_id": trace_id, "span_id": span_id, "turn_id": turn_id}
    if around is not None:
        turn.ids["parent_span_id"] = around.ids["span_id"]
    return turn


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
