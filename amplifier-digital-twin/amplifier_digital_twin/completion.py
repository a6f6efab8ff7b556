"""Work that is done to its end, whoever loses patience meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def completed(work: Coroutine[Any, Any, Result]) -> Result:
    """Return what comes of the work. A caller that is cancelled waits for its end all the same, and is cancelled then.

    For removing and ending things: `asyncio.shield` alone would let the caller go on while that is still being done.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled() and (fault := task.exception()) is not None:
        raise cancelled from fault
    raise cancelled
