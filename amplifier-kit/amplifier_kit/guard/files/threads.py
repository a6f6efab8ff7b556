"""Work on files beside the event loop, so that a slow disk holds up nobody, and a dead one not even the exit."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = ["alone_with", "in_thread"]

T = TypeVar("T")

#: Seconds that stopped work gets to end before the cancellation goes on.
_GRACE: Final = 5.0


class _Lock:
    """A lock that is forgotten when nobody holds or wants it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_locks: weakref.WeakValueDictionary[Path, _Lock] = weakref.WeakValueDictionary()
_locks_lock = threading.Lock()


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Return what `work(stop)` returns, run in a thread of its own that does not keep the process alive.

    When the caller is cancelled, `stop` is set, and the work has a few seconds to end before the cancellation goes on.
    """
    loop = asyncio.get_running_loop()
    stop = threading.Event()
    done: asyncio.Future[T] = loop.create_future()
    # Nobody is waiting any more once the caller was cancelled: then an error of the work is of no interest.
    done.add_done_callback(lambda future: None if future.cancelled() else future.exception())

    def settle(settle_with: Callable[[Any], None], outcome: Any) -> None:
        if not done.done():
            settle_with(outcome)

    def run() -> None:
        outcome: Any
        settle_with: Callable[[Any], None]
        try:
            outcome, settle_with = work(stop), done.set_result
        except BaseException as error:
            outcome, settle_with = error, done.set_exception
        try:
            loop.call_soon_threadsafe(settle, settle_with, outcome)
        except RuntimeError:
            pass  # the loop is closed: nobody is waiting

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="amplifier-files", daemon=True).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({done}, timeout=_GRACE)
        raise


@contextmanager
def alone_with(paths: Iterable[Path]) -> Iterator[None]:
    """Keep other threads of this process from changing the same files between reading and writing them."""
    with ExitStack() as stack:
        for path in sorted(set(paths)):
            with _locks_lock:
                lock = _locks.setdefault(path, _Lock())
            stack.callback(lambda held: None, lock)
            stack.enter_context(lock.lock)
        yield
