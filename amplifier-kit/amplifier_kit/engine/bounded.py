"""Run work in its own task and bound how long it is waited for.

A deadline, a request to stop and the cancellation of the caller all end a wait in bounded time, even when the work
ignores its own cancellation: its task is then left behind, so that it can still clean up. The kernel's
`amplifier_core.bounded_call` is for short callbacks, which run in the caller's task and are closed when they are late.
Code that blocks without awaiting holds everything up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator
from typing import Any, Final, TypeVar

__all__ = ["GRACE", "Contained", "Crashed", "Expired", "ForeignCancelled", "Stopped", "bounded", "drop", "run_to_end"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds that cancelled code gets to clean up before it is left behind.
GRACE: Final = 1.0
#: Seconds that work which must not be lost gets to finish once the outer task was cancelled.
_LAST_CHANCE: Final = 5.0

#: Tasks left behind; held here because asyncio itself holds them weakly.
_left_behind: set[asyncio.Future[Any]] = set()


class Expired(TimeoutError):
    """Report work that was not done in the time it was given."""


class Stopped(Exception):
    """Report work that was dropped because somebody asked to stop at once."""


class ForeignCancelled(Exception):
    """Report work that ended in a CancelledError which nobody outside had asked for."""


class Crashed(Exception):
    """Report work that ended in an exception that is none of Exception: a panic of native code, or `sys.exit`."""


class Contained(Coroutine[Any, Any, T]):
    """Be the work of a task, and raise Crashed in the place of a SystemExit.

    A task that lets a SystemExit out ends the event loop, with all that others do in it. A KeyboardInterrupt is a
    person's, and may do that. No coroutine around the work: a task that is cancelled before its first step would
    never await what is inside.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work

    def send(self, value: Any) -> Any:
        """Go on."""
        try:
            return self._work.send(value)
        except SystemExit as error:
            raise _exited(error) from error

    def throw(self, *raised: Any) -> Any:
        """Go on with an exception."""
        try:
            return self._work.throw(*raised)
        except SystemExit as error:
            raise _exited(error) from error

    def close(self) -> None:
        """Go no further."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()

    def __repr__(self) -> str:
        return repr(self._work)


async def bounded(
    work: Coroutine[Any, Any, T], *, timeout: float | None = None, stop: asyncio.Future[None] | None = None
) -> T:
    """Return what `work` returns, in a task of its own.

    Raises what it raises; Expired after `timeout` seconds; Stopped when `stop` is done first; ForeignCancelled when it
    was cancelled by its own doing, Crashed when it raised what few would catch; CancelledError when the caller was
    cancelled. When it is not done by then, it is dropped.
    """
    task = asyncio.create_task(Contained(work))
    waiting: set[asyncio.Future[Any]] = {task} if stop is None else {task, stop}
    try:
        await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await drop(task)
        raise
    if task.done():
        return _outcome(task)
    await drop(task)
    if stop is not None and stop.done():
        raise Stopped("it was asked to stop at once")
    raise Expired(f"timeout after {timeout:g} s")


async def drop(*tasks: asyncio.Future[Any], grace: float = GRACE) -> None:
    """Cancel tasks and wait for their end, but no longer than `grace` seconds; what they say no longer matters.

    They have that time even when the caller is cancelled meanwhile, as by somebody further out who stops everything at
    once; the cancellation is raised afterwards.
    """
    running = {task for task in tasks if not task.done()}
    for task in running:
        task.cancel()
    until = asyncio.get_running_loop().time() + grace
    was_cancelled = False
    try:
        while running and (left := until - asyncio.get_running_loop().time()) > 0:
            try:
                _, running = await asyncio.wait(running, timeout=left)
            except asyncio.CancelledError:
                was_cancelled = True
                running = {task for task in running if not task.done()}
    finally:
        for task in tasks:
            _forget(task)
    if was_cancelled:
        raise asyncio.CancelledError


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns, and let it finish even when the caller is cancelled meanwhile.

    The cancellation is raised afterwards. Once cancelled, it waits a few seconds and no longer.
    """
    task = asyncio.create_task(Contained(work))
    loop = asyncio.get_running_loop()
    until: float | None = None
    while not task.done():
        left = None if until is None else until - loop.time()
        if left is not None and left <= 0:
            task.cancel()
            _forget(task)
            raise asyncio.CancelledError
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            until = until or loop.time() + _LAST_CHANCE
    if until is None:
        return _outcome(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("Work that had to be finished failed: %r", error, exc_info=error)
    raise asyncio.CancelledError


def _outcome(task: asyncio.Task[T]) -> T:
    if not task.cancelled():
        error = task.exception()
        if error is None or isinstance(error, (Exception, KeyboardInterrupt)):
            return task.result()
        raise Crashed(f"it ended in {type(error).__name__}: {error}") from error
    current = asyncio.current_task()
    if current is not None and current.cancelling():
        raise asyncio.CancelledError  # both were cancelled, as when the event loop shuts down
    raise ForeignCancelled("it ended in a CancelledError that nobody outside had asked for")


def _exited(error: SystemExit) -> Crashed:
    return Crashed(f"it ended in SystemExit: {error}")


def _forget(task: asyncio.Future[Any]) -> None:
    """Take note of a task's end whenever it comes, so that nobody complains that it was never asked for."""
    if task.done():
        _consume(task)
        return
    logger.warning("Work that was stopped does not end and is left behind: %s", _named(task))
    _left_behind.add(task)
    task.add_done_callback(_consume)


def _named(task: asyncio.Future[Any]) -> str:
    """Return what a task does, in a word that a person finds in the code."""
    work = task.get_coro() if isinstance(task, asyncio.Task) else task
    inner = work._work if isinstance(work, Contained) else work
    return str(getattr(inner, "__qualname__", None) or type(inner).__name__)


def _consume(task: asyncio.Future[Any]) -> None:
    _left_behind.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.debug("Dropped work ended in %r", error)
