"""How many may call at once."""

from __future__ import annotations

import asyncio
import threading

import pytest

from amplifier_kit.llm.limits import ConcurrencyLimit, limits_for


async def test_first_come_first_served() -> None:
    """No more than the limit are inside, and those who wait enter in the order in which they came."""
    gate = ConcurrencyLimit()
    order: list[int] = []
    most = 0

    async def caller(number: int) -> None:
        nonlocal most
        async with gate.slot(2):
            most = max(most, gate.active)
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(caller(number) for number in range(7)))
    assert order == list(range(7))
    assert (most, gate.active, gate.waiting) == (2, 0, 0)


async def test_without_limit() -> None:
    """A limit of 0 lets everybody in."""
    gate = ConcurrencyLimit()
    async with gate.slot(0), gate.slot(0), gate.slot(0):
        assert gate.active == 3


async def test_waiting_is_told() -> None:
    """Only a caller that has to wait hears the numbers."""
    gate = ConcurrencyLimit()
    told: list[dict[str, int]] = []

    async def tell(numbers: dict[str, int]) -> None:
        told.append(numbers)

    async def second() -> None:
        async with gate.slot(1, tell):
            pass

    async with gate.slot(1, tell):
        task = asyncio.create_task(second())
        await asyncio.sleep(0)
    await task
    assert [(item["active_requests"], item["waiting_requests"], item["max_concurrent"]) for item in told] == [(1, 1, 1)]


@pytest.mark.parametrize("when", ["waiting", "admitted"])
async def test_cancelled_while_waiting(when: str) -> None:
    """A caller that gives up leaves its place to the next, also when it had just been let in."""
    gate = ConcurrencyLimit()

    async def caller() -> None:
        async with gate.slot(1):
            pass

    async with gate.slot(1):
        first, second = asyncio.create_task(caller()), asyncio.create_task(caller())
        await asyncio.sleep(0)
        if when == "waiting":
            first.cancel()
    if when == "admitted":
        first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await second
    assert first.cancelled()
    assert (gate.active, gate.waiting) == (0, 0)


async def test_across_threads() -> None:
    """Callers on different event loops share the limit."""
    gate = limits_for(("test", object())).concurrency
    inside, most = 0, 0
    lock = threading.Lock()

    async def caller() -> None:
        nonlocal inside, most
        async with gate.slot(2):
            with lock:
                inside += 1
                most = max(most, inside)
            await asyncio.sleep(0.005)
            with lock:
                inside -= 1

    async def several() -> None:
        await asyncio.gather(*(caller() for _ in range(5)))

    threads = [threading.Thread(target=asyncio.run, args=(several(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert most == 2
    assert gate.active == 0


async def test_a_lost_event_loop_holds_nobody_up() -> None:
    """One that waited on an event loop which is gone is passed over."""
    gate = ConcurrencyLimit()
    holder = gate.slot(1)
    await holder.__aenter__()

    def elsewhere() -> None:
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(gate.slot(1).__aenter__())
        loop.run_until_complete(asyncio.sleep(0))
        waiting._log_destroy_pending = False  # type: ignore[attr-defined]  # being lost is the point
        loop.close()
        lost.append(waiting)

    lost: list[object] = []
    await asyncio.to_thread(elsewhere)
    mine = asyncio.create_task(gate.slot(1).__aenter__())
    await asyncio.sleep(0)
    await holder.__aexit__(None, None, None)
    await mine
    assert gate.active == 1


def test_one_gate_per_account() -> None:
    """The same account gives the same gate."""
    key = object()
    assert limits_for(("a", key)).concurrency is limits_for(("a", key)).concurrency
    assert limits_for(("a", key)).concurrency is not limits_for(("b", key)).concurrency
