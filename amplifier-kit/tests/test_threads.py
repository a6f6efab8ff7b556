"""Blocking work beside the event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from amplifier_kit.threads import in_thread, run_stoppable


async def test_results_and_failures_come_back() -> None:
    """What the function returns or raises is what the caller gets."""

    def fail() -> int:
        raise KeyError("x")

    assert await in_thread(lambda: 7) == 7
    with pytest.raises(KeyError):
        await in_thread(fail)


async def test_more_pieces_wait_for_each_other_than_a_pool_has_threads() -> None:
    """A hundred pieces that wait for each other all finish: each has its own thread."""
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
    """`stop` is called, so that the work can end early."""
    stopped = threading.Event()
    running = asyncio.ensure_future(in_thread(lambda: stopped.wait(60), stop=stopped.set))
    await asyncio.sleep(0)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert stopped.is_set()


async def test_stoppable_work_gets_an_event() -> None:
    """Cancelling sets the event, and the caller waits for the work to end."""
    begun, ended = threading.Event(), threading.Event()

    def work(stop: threading.Event) -> None:
        begun.set()
        stop.wait()
        ended.set()

    task = asyncio.create_task(run_stoppable(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def test_a_dead_disk_does_not_hold_up_the_exit() -> None:
    """A process ends although work hangs for ever."""
    program = (
        "import asyncio, threading\n"
        "from amplifier_kit.threads import run_stoppable\n"
        "async def main():\n"
        "    await asyncio.wait_for(run_stoppable(lambda stop: threading.Event().wait(), grace=0.01), 0.05)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "TimeoutError" in done.stderr
