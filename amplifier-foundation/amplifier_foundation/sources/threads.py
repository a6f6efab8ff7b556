"""Do blocking work beside the event loop, each piece in a thread of its own.

The loop's shared pool has few threads: pieces that wait for each other (or for another process) could fill it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[[], T], *, stop: Callable[[], None] | None = None) -> T:
    """Return what `function` returns, raise what it raises.

    A cancelled caller calls `stop` and still waits for the function to end, so that nothing of it goes on behind the
    caller's back; without `stop` the function must be one that ends by itself soon.
    """
    import asyncio
    import threading

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        tell: Callable[[], None]
        try:
            result = function()
        except BaseException as error:
            failure = error  # the name `error` is gone when the loop comes to it
            tell = lambda: ended.set_exception(failure)  # noqa: E731
        else:
            tell = lambda: ended.set_result(result)  # noqa: E731
        try:
            loop.call_soon_threadsafe(tell)
        except RuntimeError:
            pass  # the loop was closed: nobody waits for this any more

    threading.Thread(target=run, name="amplifier-source", daemon=True).start()
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        while not ended.done():
            try:
                await asyncio.wait([ended])
            except asyncio.CancelledError:
                pass  # the one that is passed on below is enough
        ended.exception()  # looked at, so that asyncio does not complain about it
        raise
