"""Find the tool call that the current task works for, as child sessions and progress events must.

Loops record a running call in `coordinator._tool_dispatch_contexts`, by its task. Tasks that a tool starts inherit
which task that was, so that they find the record too: only while the call runs, and never from another session, which
has its own records.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

#: The task of the innermost running call. Weak: tasks that outlive the call must not keep it alive.
_task_of_call: ContextVar[weakref.ref[asyncio.Task[Any]] | None] = ContextVar("amplifier_task_of_call", default=None)


@contextmanager
def dispatched(coordinator: Any, ids: Mapping[str, str]) -> Iterator[None]:
    """Record the ids of the call that the current task runs in the block; the task must be the call's own."""
    records, task = _records(coordinator), asyncio.current_task()
    if records is None:
        records = {}
        if coordinator is not None:
            coordinator._tool_dispatch_contexts = records
    records[task] = dict(ids)
    _task_of_call.set(weakref.ref(task) if task is not None else None)
    try:
        yield
    finally:
        records.pop(task, None)


def call_in_progress(coordinator: Any) -> Mapping[str, Any] | None:
    """Return the ids of the call that the current task works for in this session, None when unknown.

    That is the call of the task, else of the task that started it, else `coordinator._tool_dispatch_context`, which
    published loops set.
    """
    records, around = _records(coordinator) or {}, _task_of_call.get()
    for task in (asyncio.current_task(), around() if around is not None else None):
        if task is not None and isinstance(found := records.get(task), Mapping):
            return found
    context = getattr(coordinator, "_tool_dispatch_context", None)
    return context if isinstance(context, Mapping) else None


def _records(coordinator: Any) -> dict[Any, Any] | None:
    records = getattr(coordinator, "_tool_dispatch_contexts", None)
    return records if isinstance(records, dict) else None
