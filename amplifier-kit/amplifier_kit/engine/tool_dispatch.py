"""Know which call of the model is being carried out: in the task that does it, and in those that it has started.

Loops note a call in `coordinator._tool_dispatch_contexts` by its task, for as long as it runs. Tasks that a tool starts
inherit which task that was, so that the note is found from them too: not when the call is over, and never from another
session, which has notes of its own.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["call_in_progress", "dispatched"]

_Task = asyncio.Task[Any]

#: The task of the innermost call around. Weak: what a tool leaves running must not hold it.
_task_of_call: ContextVar[weakref.ref[_Task] | None] = ContextVar("amplifier_task_of_call", default=None)


@contextmanager
def dispatched(coordinator: Any, ids: Mapping[str, str]) -> Iterator[None]:
    """Note the ids of the call that the current task carries out in the block.

    The task must be the call's own: what it starts later is taken to belong to no other call.
    """
    known, task = _notes(coordinator), asyncio.current_task()
    if known is None:
        known = {}
        if coordinator is not None:
            coordinator._tool_dispatch_contexts = known
    known[task] = dict(ids)
    _task_of_call.set(weakref.ref(task) if task is not None else None)
    try:
        yield
    finally:
        known.pop(task, None)


def call_in_progress(coordinator: Any) -> Mapping[str, Any] | None:
    """Return the ids of the call of this session that the current task works for, None when nobody knows.

    That is the call of the task, else of the one that started it, else the one the session says is running.
    """
    known, around = _notes(coordinator) or {}, _task_of_call.get()
    for task in (asyncio.current_task(), around() if around is not None else None):
        if task is not None and isinstance(found := known.get(task), Mapping):
            return found
    said = getattr(coordinator, "_tool_dispatch_context", None)
    return said if isinstance(said, Mapping) else None


def _notes(coordinator: Any) -> dict[Any, Any] | None:
    known = getattr(coordinator, "_tool_dispatch_contexts", None)
    return known if isinstance(known, dict) else None
