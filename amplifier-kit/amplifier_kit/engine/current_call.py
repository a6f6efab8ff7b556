"""The tool call that a task works for: its ids, which child sessions need, and the progress that it reports.

Loops record a running call in `coordinator._tool_dispatch_contexts`, by its task. Tasks that a tool starts inherit
which task that was, so that they find the record too: only while the call runs, and never from another session, which
has its own records.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Final

logger = logging.getLogger(__name__)

#: Emitted while a tool works.
TOOL_PROGRESS: Final = "tool:progress"
#: Seconds for a listener to end when the work has ended.
_LISTENER_GRACE: Final = 0.5

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


def call_id(coordinator: Any) -> dict[str, str]:
    """Return `{"tool_call_id": ...}` for the call that the current task works for; empty when unknown."""
    found = (call_in_progress(coordinator) or {}).get("tool_call_id")
    return {"tool_call_id": found} if isinstance(found, str) and found else {}


@asynccontextmanager
async def progress_reports(
    coordinator: Any, tool_name: str, every: float, describe_at: Callable[[float], Mapping[str, Any]]
) -> AsyncIterator[None]:
    """Emit `tool:progress` every so many seconds while the block runs, with what is said of the seconds since then.

    A listener that fails or hangs does not hold the block up.
    """
    names = {"tool_name": tool_name, **call_id(coordinator)}

    async def report() -> None:
        since = time.monotonic()
        while True:
            await asyncio.sleep(every)
            await coordinator.hooks.emit(TOOL_PROGRESS, {**names, **describe_at(time.monotonic() - since)})

    reporting = asyncio.create_task(report())
    try:
        yield
    finally:
        reporting.cancel()
        await asyncio.wait([reporting], timeout=_LISTENER_GRACE)
        if reporting.done() and not reporting.cancelled() and (error := reporting.exception()) is not None:
            logger.warning("%s: progress cannot be reported: %r", tool_name, error)


def _records(coordinator: Any) -> dict[Any, Any] | None:
    records = getattr(coordinator, "_tool_dispatch_contexts", None)
    return records if isinstance(records, dict) else None
