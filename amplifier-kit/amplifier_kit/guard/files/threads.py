"""Run file work in threads, so that a slow disk does not block the event loop, nor a hanging one the exit."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = ["exclusive_access", "in_thread"]

T = TypeVar("T")

#: Seconds for stopped work to end before the cancellation propagates.
_GRACE: Final = 5.0


class _Lock:
    """A lock that is dropped when no thread holds or wants it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_locks: weakref.WeakValueDictionary[Path, _Lock] = weakref.WeakValueDictionary()
_locks_lock = threading.Lock()


async def in_thread(work: Callable[[threading.Event], T], *, grace: float | None = _GRACE) -> T:
    """Run `work(stop)` in a daemon thread and return its result.

    When the caller is cancelled, `stop` is set, and the work has `grace` seconds to end before the cancellation
    propagates; None means until it ends.
    """
    loop = asyncio.get_running_loop()
    stop = threading.Event()
    done: asyncio.Future[T] = loop.create_future()
    # After the caller was cancelled, an error of the work has no receiver; retrieve it to avoid a warning.
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
            pass  # the loop is closed

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="amplifier-files", daemon=True).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        stop.set()
        if grace is not None:
            await asyncio.wait({done}, timeout=grace)
        while grace is None and not done.done():
            try:
                await asyncio.wait({done})
            except asyncio.CancelledError:
                pass  # the first one is raised below
        raise


@contextmanager
def exclusive_access(paths: Iterable[Path]) -> Iterator[None]:
    """Keep other threads of this process from changing the same files between reading and writing them."""
    with ExitStack() as stack:
        for path in sorted(set(paths)):
            with _locks_lock:
                lock = _locks.setdefault(path, _Lock())
            stack.callback(lambda held: None, lock)
            stack.enter_context(lock.lock)
        yield
