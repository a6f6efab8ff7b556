"""Know which model call an event belongs to: every asyncio task correlates its own calls and no other's."""

from __future__ import annotations

import uuid
from contextvars import ContextVar

from amplifier_core.events import LLM_REQUEST, LLM_RESPONSE, PROVIDER_ERROR, PROVIDER_RETRY, PROVIDER_THROTTLE

REQUEST_ID_FIELD = "request_id"
REQUEST_EVENTS = frozenset({LLM_REQUEST})
TERMINAL_EVENTS = frozenset({LLM_RESPONSE, PROVIDER_ERROR})
INTERIM_EVENTS = frozenset({PROVIDER_RETRY, PROVIDER_THROTTLE})
CORRELATED_EVENTS = REQUEST_EVENTS | TERMINAL_EVENTS | INTERIM_EVENTS

_open_call: ContextVar[str | None] = ContextVar("amplifier_request_id", default=None)


def new_request_id() -> str:
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
