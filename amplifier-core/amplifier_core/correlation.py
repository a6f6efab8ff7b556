"""Know which model call an event belongs to, and who emitted it.

Both are kept in contextvars, so every asyncio task correlates its own calls and no other's, and a task that a module
starts keeps emitting in the name of that module.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple

from amplifier_core.events import LLM_REQUEST, LLM_RESPONSE, PROVIDER_ERROR, PROVIDER_RETRY, PROVIDER_THROTTLE

REQUEST_ID_FIELD = "request_id"
REQUEST_EVENTS = frozenset({LLM_REQUEST})
TERMINAL_EVENTS = frozenset({LLM_RESPONSE, PROVIDER_ERROR})
INTERIM_EVENTS = frozenset({PROVIDER_RETRY, PROVIDER_THROTTLE})
CORRELATED_EVENTS = REQUEST_EVENTS | TERMINAL_EVENTS | INTERIM_EVENTS

_open_call: ContextVar[str | None] = ContextVar("amplifier_request_id", default=None)


def new_request_id() -> str:
    """Return a fresh id without opening a call."""
    return str(uuid.uuid4())


def current_request_id() -> str | None:
    """Return the id of the call that is open in this task, if any."""
    return _open_call.get()


def reset_request_id() -> None:
    """Close the open call of this task without an event."""
    _open_call.set(None)


def resolve_request_id(event: str, explicit: str | None = None) -> str | None:
    """Return the id that `event` must carry and open or close the call accordingly.

    A request opens a call (with a fresh id unless one is given), an interim event keeps it, a terminal event closes
    it. Events that belong to no call get none and change nothing.
    """
    if event in REQUEST_EVENTS:
        opened = explicit or new_request_id()
        _open_call.set(opened)
        return opened
    if event in TERMINAL_EVENTS:
        closed = explicit or _open_call.get()
        _open_call.set(None)
        return closed
    if event in INTERIM_EVENTS:
        if explicit:
            _open_call.set(explicit)
        return explicit or _open_call.get()
    return None


class Emitter(NamedTuple):
    """Name who emits events or writes log records in the session of `owner`, a coordinator."""

    owner: Any
    #: kernel, orchestrator, provider, tool, hook, context or app
    component: str
    #: The id of the module; None for the kernel and the app.
    module: str | None = None


_emitter: ContextVar[Emitter | None] = ContextVar("amplifier_emitter", default=None)


def current_emitter(owner: Any) -> Emitter:
    """Return who is running in the session of `owner`: outside the kernel and every module, that is the app."""
    emitter = _emitter.get()
    return emitter if emitter is not None and emitter.owner is owner else Emitter(owner, "app")


class acting:  # read as a verb: with acting(emitter)
    """Attribute what is emitted in this block to `emitter`."""

    __slots__ = ("_before", "_emitter")

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._before: Emitter | None = None

    def __enter__(self) -> None:
        self._before = _emitter.get()
        _emitter.set(self._emitter)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not by token: a coroutine that is never finished is closed in another context, whose emitter is not ours.
        if _emitter.get() is self._emitter:
            _emitter.set(self._before)


def attributed(function: Callable[..., Any], emitter: Emitter) -> Callable[..., Any]:
    """Return `function` so that what it emits is attributed to `emitter`.

    For functions that the kernel calls in a copied context: nothing is restored afterwards.
    """

    def act(*arguments: Any) -> Any:
        _emitter.set(emitter)
        return function(*arguments)

    return act
