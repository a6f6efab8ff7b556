"""Blocking work beside the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from amplifier_foundation.sources.threads import in_thread


async def test_results_and_failures_come_back() -> None:
    """What the function returns or raises is what the caller gets."""

    def fail() -> int:
        raise KeyError("x")

    assert await in_thread(lambda: 7) == 7
    with pytest.raises(KeyError):
        await in_thread(fail)


async def test_more_pieces_wait_for_each_other_than_a_pool_has_threads() -> None:
    """A hundred pieces that only go on together do go on: each has a thread of its own."""
    together = threading.Barrier(100)

    await asyncio.gather(*(in_thread(lambda: together.wait(60)) for _ in range(100)))

    assert not together.broken


async def test_a_cancelled_caller_waits_for_the_end() -> None:
    """Cancelling asks the function to stop, and waits until it did, however often it is repeated."""
    started, stopped, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        stopped.wait(60)
        ended.set()
        raise ValueError("nobody hears this")

    running = asyncio.ensure_future(in_thread(work, stop=lambda: None))
    await asyncio.to_thread(started.wait, 60)
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.sleep(0)
    assert not running.done()

    stopped.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_stop_is_called_when_the_caller_is_cancelled() -> None:
    """Work that would go on is told to stop."""
    stopped = threading.Event()
    running = asyncio.ensure_future(in_thread(lambda: stopped.wait(60), stop=stopped.set))
    await asyncio.sleep(0)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert stopped.is_set()
