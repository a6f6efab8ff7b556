"""The wall time ends what takes too long, and only that."""

from __future__ import annotations

import asyncio

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.wall_time import within_wall


async def test_block_that_takes_too_long_is_ended() -> None:
    """It is cancelled, and what was being done is named."""
    with pytest.raises(TwinError, match=r"thinking was not done after 0\.01 s") as caught:
        async with within_wall(0.01, "thinking"):
            await asyncio.sleep(60)
    assert caught.value.code == "wall_limit"


async def test_timeout_of_something_else_stays_what_it_is() -> None:
    """A TimeoutError of the block itself is not taken for the wall's."""
    with pytest.raises(TimeoutError, match="of mine"):
        async with within_wall(60, "thinking"):
            raise TimeoutError("of mine")


async def test_cancellation_stays_what_it_is() -> None:
    """Whoever cancels the block does not get a fault instead."""

    async def work() -> None:
        async with within_wall(60, "thinking"):
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
