"""Work beside the event loop ends when it is stopped, and keeps others from the same file."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplifier_kit.guard.files import exclusive_access, in_thread


async def test_results_and_errors_come_back() -> None:
    """What the work returns or raises, the caller gets."""

    def fail(stop: threading.Event) -> None:
        raise ValueError("wrong")

    assert await in_thread(lambda stop: stop.is_set()) is False
    with pytest.raises(ValueError, match="wrong"):
        await in_thread(fail)


async def test_a_cancelled_caller_waits_for_the_work_to_end() -> None:
    """Cancelling stops the work, and only then the caller ends."""
    begun, ended = threading.Event(), threading.Event()

    def work(stop: threading.Event) -> None:
        begun.set()
        stop.wait()
        ended.set()

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def test_a_dead_disk_does_not_hold_up_the_exit() -> None:
    """A process ends although work hangs for ever."""
    program = (
        "import asyncio, threading\n"
        "from amplifier_kit.guard.files import in_thread\n"
        "async def main():\n"
        "    await asyncio.wait_for(in_thread(lambda stop: threading.Event().wait(), grace=0.01), 0.05)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "TimeoutError" in done.stderr


@settings(max_examples=20)
@given(orders=st.lists(st.permutations(["a", "b", "c"]), min_size=2, max_size=6))
def test_nobody_waits_in_a_circle(orders: list[list[str]]) -> None:
    """Several files are taken in one order, whatever order they are asked for in, and one at a time."""
    inside: list[int] = []

    def work(order: list[str]) -> None:
        for _ in range(20):
            with exclusive_access(Path(name) for name in [*order, *order]):
                inside.append(1)
                assert len(inside) == 1
                inside.pop()

    threads = [threading.Thread(target=work, args=(order,), daemon=True) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_locks_are_forgotten() -> None:
    """Nothing is kept of files that nobody works on."""
    from amplifier_kit.guard.files import threads

    with exclusive_access([Path("only/here")]):
        assert Path("only/here") in threads._locks
    assert Path("only/here") not in threads._locks
