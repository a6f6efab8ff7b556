"""Do a piece of work once, however many ask for it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class SharedWork(Generic[T]):
    """Work by key: under way it is joined, done it is remembered, failed it is tried anew by the next who asks.

    It belongs to one event loop.
    """

    def __init__(self) -> None:
        self._pieces: dict[Hashable, _Piece[T]] = {}

    async def get(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the work for `key`; raises what it raises.

        Who is cancelled leaves the others waiting; when nobody is left the work is cancelled, and has ended before
        this returns.
        """
        import asyncio

        piece = self._pieces.get(key)
        if piece is None:
            piece = self._pieces[key] = _Piece(asyncio.ensure_future(work()))
        piece.waiting += 1
        try:
            return await asyncio.shield(piece.task)
        except BaseException:
            if piece.waiting == 1 and self._pieces.get(key) is piece:
                del self._pieces[key]
                await _ended(piece.task)
            raise
        finally:
            piece.waiting -= 1


class _Piece(Generic[T]):
    """One piece of work, and how many wait for it."""

    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task = task
        self.waiting = 0


async def _ended(task: asyncio.Task[Any]) -> None:
    """Cancel work nobody waits for, and wait until it has cleaned up."""
    import asyncio

    task.cancel()
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            pass  # the caller is being cancelled already
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not complain about it
