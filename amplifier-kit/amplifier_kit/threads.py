"""Run blocking work beside the event loop, each piece in its own daemon thread.

The loop's shared pool has few threads, which pieces that wait for each other could fill, and its threads hold up the
exit of the program when a disk hangs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio
    import threading

T = TypeVar("T")


async def in_thread(
    function: Callable[[], T], *, stop: Callable[[], None] | None = None, grace: float | None = None
) -> T:
    """Return what `function` returns, raise what it raises.

    When the caller is cancelled, `stop` is called, and the function has `grace` seconds to end before the cancellation
    propagates; None means until it ends, so that nothing continues unseen.
    """
    import asyncio  # slow to import, and commands that need no event loop import this module too
    import contextvars
    import threading

    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    # After the caller was cancelled, an error of the function has no receiver; retrieve it to avoid a warning.
    done.add_done_callback(lambda future: None if future.cancelled() else future.exception())

    def settle(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not done.done():
            set_outcome(outcome)

    def run() -> None:
        outcome: Any
        set_outcome: Callable[[Any], None]
        try:
            outcome, set_outcome = function(), done.set_result
        except BaseException as error:
            outcome, set_outcome = error, done.set_exception
        try:
            loop.call_soon_threadsafe(settle, set_outcome, outcome)
        except RuntimeError:
            pass  # the loop is closed

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="amplifier-work", daemon=True).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        if grace is not None:
            await asyncio.wait({done}, timeout=grace)
        while grace is None and not done.done():
            try:
                await asyncio.wait({done})
            except asyncio.CancelledError:
                pass  # the first one is raised below
        raise


async def obtain(function: Callable[[], T], release: Callable[[T], None]) -> T:
    """Return what `function` returns in a thread; what it returns after the caller was cancelled is released."""
    import asyncio

    def release_late(work: asyncio.Future[T]) -> None:
        if not work.cancelled() and work.exception() is None:
            release(work.result())

    work = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(release_late)
        raise


async def run_stoppable(work: Callable[[threading.Event], T], *, grace: float | None = 5.0) -> T:
    """Run `work(stop)` in a thread; `stop` is set when the caller is cancelled. See `in_thread`."""
    import threading

    stop = threading.Event()
    return await in_thread(lambda: work(stop), stop=stop.set, grace=grace)
