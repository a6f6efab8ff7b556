"""The time that a universe may take for something as a whole, whatever the parts of it are allowed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from amplifier_digital_twin.errors import TwinError


@asynccontextmanager
async def within_wall(seconds: float, what: str) -> AsyncIterator[None]:
    """Bound a block; raise TwinError when it is not done in time."""
    try:
        async with asyncio.timeout(seconds) as bound:
            yield
    except TimeoutError:
        if not bound.expired():
            raise
        raise TwinError(
            "wall_limit", f"{what} was not done after {seconds:g} s", "raise `limits.wall` in the profile"
        ) from None
