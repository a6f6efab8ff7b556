"""Run work in its own task: with a deadline, until a stop is requested, or to its end although the caller is cancelled.

Late work is cancelled, gets GRACE seconds to clean up, and is then left running, because a tool or a child session may
still have processes and files to close. The kernel's `amplifier_core.bounded_call.call` needs no task and closes late
work, but SystemExit passes through it. Code that blocks without awaiting cannot be bounded by either.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from amplifier_core.bounded_call import DeadlineExceeded, ForeignCancelled
from amplifier_core.data import describe

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds that cancelled work gets to clean up.
GRACE: Final = 1.0
#: Seconds that work which must not be lost gets to finish once its caller was cancelled.
_FINISH_SECONDS: Final = 5.0

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
