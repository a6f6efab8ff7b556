"""Run work in its own task: with a deadline, until a stop is requested, or to its end although the caller is cancelled.

Late work is cancelled, gets GRACE seconds to clean up, and is then left running, because a tool or a child session may
still have processes and files to close. The kernel's `amplifier_core.bounded_call.call` needs no task and closes late
work, but SystemExit passes through it. Code that blocks without awaiting cannot be bounded by either.

A task can find the tool call that it works for, as child sessions and progress events must.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from amplifier_core.bounded_call import DeadlineExceeded, ForeignCancelled
from amplifier_core.data import describe

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds that cancelled work gets to clean up.
GRACE: Final = 1.0
#: Seconds that work which must not be lost gets to finish once its caller was cancelled.
_FINISH_SECONDS: Final = 5.0

#: Emitted while a tool works.
TOOL_PROGRESS: Final = "tool:progress"
#: Seconds for a listener to end when the work has ended.
_LISTENER_GRACE: Final = 0.5

#: Unfinished tasks; held here because asyncio holds them weakly.
_running: set[asyncio.Task[Any]] = set()


class TimedOut(DeadlineExceeded):
    """Work was not done within the timeout of the `run_bounded` that was called.

    A deadline that the work itself ran into is a plain DeadlineExceeded.
    """


class Stopped(Exception):
    """Work was cancelled because the session must stop at once."""


class Crashed(Exception):
    """Work ended in an exception that is not an Exception, such as SystemExit or a panic of native code."""


def start(function: Callable[..., Awaitable[T]], *arguments: Any) -> asyncio.Task[T]:
    """Run a function in a new task; SystemExit and the like become Crashed there.

    A task that raises SystemExit would end the event loop, with everything else that runs in it.
    """
    name = getattr(function, "__qualname__", type(function).__name__)
    task = asyncio.create_task(_contain(function, arguments), name=name)
    _running.add(task)
    task.add_done_callback(_forget)
    return task


async def _contain(function: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]) -> T:
    try:
        return await function(*arguments)
    except TimedOut as error:
        raise DeadlineExceeded(str(error)) from error
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise Crashed(f"it ended in {type(error).__name__}: {describe(error)}") from error


def _forget(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # read, so that asyncio does not report an exception of cancelled work as never retrieved


async def run_bounded(
    function: Callable[..., Awaitable[T]],
    *arguments: Any,
    timeout: float | None = None,
    stop: asyncio.Future[None] | None = None,
) -> T:
    """Return what `function` returns.

    Raises what it raises; TimedOut after `timeout` seconds; Stopped when `stop` is done first; ForeignCancelled
    when it cancelled itself; Crashed when it raised SystemExit or the like. Work that is not done by then, or when the
    caller is cancelled, is cancelled too.
    """
    task = start(function, *arguments)
    try:
        waiting: set[asyncio.Future[Any]] = {task} if stop is None else {task, stop}
        await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return _result(task)
    finally:
        await cancel_and_wait(task)
    if stop is not None and stop.done():
        raise Stopped("the session must stop at once")
    raise TimedOut(f"timeout after {timeout:g} s")


async def cancel_and_wait(*tasks: asyncio.Task[Any], grace: float | None = None) -> None:
    """Cancel tasks and wait until they end, but no longer than `grace` seconds (GRACE by default).

    They have that time even when the caller is cancelled meanwhile; the cancellation is raised afterwards.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + (GRACE if grace is None else grace)
    unfinished = {task for task in tasks if not task.done()}
    for task in unfinished:
        task.cancel()
    was_cancelled = False
    while unfinished and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait(unfinished, timeout=left)
        except asyncio.CancelledError:
            was_cancelled = True
        unfinished = {task for task in unfinished if not task.done()}
    for task in unfinished:
        logger.warning("%s ignores its cancellation and is left running", task.get_name())
    if was_cancelled:
        raise asyncio.CancelledError


async def run_to_end(function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Return what `function` returns, and let it finish even when the caller is cancelled meanwhile.

    The cancellation is raised afterwards, at the latest after a few seconds.
    """
    task = start(function, *arguments)
    loop = asyncio.get_running_loop()
    until: float | None = None
    while not task.done():
        left = None if until is None else until - loop.time()
        if left is not None and left <= 0:
            await cancel_and_wait(task, grace=0)
            break
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            until = until or loop.time() + _FINISH_SECONDS
    if until is None:
        return _result(task)
    if task.done() and not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s failed after its caller was cancelled: %r", task.get_name(), error, exc_info=error)
    raise asyncio.CancelledError


def _result(task: asyncio.Task[T]) -> T:
    if not task.cancelled():
        return task.result()
    current = asyncio.current_task()
    if current is not None and current.cancelling():
        raise asyncio.CancelledError  # both were cancelled, as when the event loop shuts down
    raise ForeignCancelled


# -- the tool call of a task --
#
# Loops record a running call in `coordinator._tool_dispatch_contexts`, by its task. Tasks that a tool starts inherit
# which task that was, so that they find the record too: only while the call runs, and never from another session, which
# has its own records.

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
