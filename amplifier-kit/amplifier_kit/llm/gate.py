"""Limit how many calls to one account run at the same time, in the whole process.

A session, its sub-agents and other sessions each mount their own provider object, perhaps on event loops of their own;
the limit of the service knows nothing of that. So there is one gate per account, safe across threads and loops.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Final

__all__ = ["Gate", "gate_of"]

OnWait = Callable[[dict[str, int]], Awaitable[None]]


class Gate:
    """Let at most so many callers pass at once, first come first served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self.active = 0

    @property
    def waiting(self) -> int:
        """Return how many callers wait."""
        return len(self._waiting)

    @asynccontextmanager
    async def passage(self, limit: int, on_wait: OnWait | None = None) -> AsyncIterator[None]:
        """Hold a place while the block runs; `limit` 0 means as many as like.

        `on_wait` is told the numbers when the caller has to wait.
        """
        waiter = self._enter(limit)
        try:
            if waiter is not None:
                if on_wait is not None:
                    await on_wait(self.numbers(limit))
                await waiter.future
        except BaseException:
            self._give_up(waiter)
            raise
        try:
            yield
        finally:
            self._leave()

    def numbers(self, limit: int) -> dict[str, int]:
        """Return what `provider:concurrency` tells."""
        counts = {"active_requests": self.active, "waiting_requests": self.waiting}
        return {**counts, "max_concurrent": limit, "process_id": os.getpid()}

    def _enter(self, limit: int) -> _Waiter | None:
        with self._lock:
            if limit <= 0 or (self.active < limit and not self._waiting):
                self.active += 1
                return None
            waiter = _Waiter(limit)
            self._waiting.append(waiter)
            return waiter

    def _leave(self) -> None:
        with self._lock:
            self.active -= 1
            self._admit()

    def _give_up(self, waiter: _Waiter | None) -> None:
        if waiter is None:
            return
        with self._lock:
            if waiter.is_admitted:
                self.active -= 1
                self._admit()
            else:
                self._waiting.remove(waiter)

    def _admit(self) -> None:
        while self._waiting and self.active < self._waiting[0].limit:
            waiter = self._waiting.popleft()
            if waiter.admit():
                self.active += 1


class _Waiter:
    """One caller that waits on its own event loop."""

    def __init__(self, limit: int) -> None:
        self.limit: Final = limit
        self.is_admitted = False
        self._loop = asyncio.get_running_loop()
        self.future: Final[asyncio.Future[None]] = self._loop.create_future()

    def admit(self) -> bool:
        """Let the caller go on; False when its event loop is gone."""
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            return False
        self.is_admitted = True
        return True

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


_gates: Final[dict[Hashable, Gate]] = {}
_gates_lock: Final = threading.Lock()


def gate_of(account: Hashable) -> Gate:
    """Return the one gate of an account in this process."""
    with _gates_lock:
        return _gates.setdefault(account, Gate())
