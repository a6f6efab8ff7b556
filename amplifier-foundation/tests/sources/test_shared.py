"""Work that is done once for all who ask."""

from __future__ import annotations

import asyncio

import pytest

from amplifier_foundation.sources.fetcher import SharedWork


class Work:
    """A piece of work that waits to be let go, and counts."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.go = asyncio.Event()
        self.failure: Exception | None = None

    async def __call__(self) -> int:
        self.begun += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failure is not None:
            raise self.failure
        return self.begun


async def test_work_under_way_is_joined_and_done_work_is_remembered() -> None:
    """Ten callers at once and one later get the result of the same piece of work."""
    work, shared = Work(), SharedWork[int]()
    callers = [asyncio.ensure_future(shared.get("key", work)) for _ in range(10)]
    await asyncio.sleep(0)
    work.go.set()

    assert [*await asyncio.gather(*callers), await shared.get("key", work)] == [1] * 11


async def test_each_key_has_its_own_work() -> None:
    """What is done for one key is not taken for another."""
    work, shared = Work(), SharedWork[int]()
    work.go.set()

    assert [await shared.get("a", work), await shared.get("b", work)] == [1, 2]


async def test_failed_work_fails_for_all_and_is_tried_anew() -> None:
    """All who waited hear of the failure, the next one who asks starts again."""
    work, shared = Work(), SharedWork[int]()
    work.failure = ValueError("no")
    callers = [asyncio.ensure_future(shared.get("key", work)) for _ in range(3)]
    await asyncio.sleep(0)
    work.go.set()
    results = await asyncio.gather(*callers, return_exceptions=True)
    work.failure = None

    assert [str(result) for result in results] == ["no"] * 3
    assert await shared.get("key", work) == 2


async def test_one_who_is_cancelled_leaves_the_others_waiting() -> None:
    """Work goes on as long as anybody waits for it."""
    work, shared = Work(), SharedWork[int]()
    first, second = (asyncio.ensure_future(shared.get("key", work)) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    work.go.set()

    assert await second == 1
    assert work.cancelled == 0


async def test_work_nobody_waits_for_is_cancelled_and_can_be_asked_for_again() -> None:
    """The last one who leaves ends the work; who comes later starts it anew."""
    work, shared = Work(), SharedWork[int]()
    callers = [asyncio.ensure_future(shared.get("key", work)) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    assert work.cancelled == 1

    work.go.set()
    assert await shared.get("key", work) == 2
