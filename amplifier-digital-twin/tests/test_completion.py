"""Work that is done to its end."""

from __future__ import annotations

import asyncio

import pytest

from amplifier_digital_twin.completion import completed


class Work:
    """Something that takes until it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.is_done = False

    async def do(self, fault: Exception | None = None) -> str:
        """Wait, and fail when asked to."""
        await self.go.wait()
        self.is_done = True
        if fault is not None:
            raise fault
        return "done"


async def test_result_and_fault_are_passed_on() -> None:
    """Without anybody who loses patience it is as if the work was awaited."""
    work = Work()
    work.go.set()
    assert await completed(work.do()) == "done"
    with pytest.raises(KeyError):
        await completed(work.do(KeyError("x")))


@pytest.mark.parametrize("fault", [None, ValueError("the work failed")])
async def test_who_is_cancelled_waits_for_the_end(fault: Exception | None) -> None:
    """However often it is cancelled, the caller goes on only when the work is done, and is cancelled then."""
    work = Work()
    caller = asyncio.create_task(completed(work.do(fault)))
    for _ in range(3):
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.sleep(0)
        assert not caller.done()
    work.go.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await caller
    assert work.is_done
    assert caught.value.__cause__ is fault
