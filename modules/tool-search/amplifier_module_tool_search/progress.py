"""Report the progress of a long search."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

logger = logging.getLogger(__name__)

EVENT: Final = "tool:progress"
#: Seconds between reports.
PERIOD: Final = 1.0


@asynccontextmanager
async def report_progress(
    coordinator: Any, tool: str, tool_input: Mapping[str, Any], message: Callable[[], str]
) -> AsyncIterator[None]:
    """Emit `tool:progress` every second while the block runs."""
    call_id = tool_input.get("_tool_call_id")
    payload = {"tool_name": tool} | ({"tool_call_id": call_id} if isinstance(call_id, str) else {})

    async def report() -> None:
        start = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(PERIOD)
            elapsed = round(asyncio.get_running_loop().time() - start, 1)
            await coordinator.hooks.emit(EVENT, {**payload, "message": message(), "elapsed_seconds": elapsed})

    task = asyncio.create_task(report())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("tool-search: progress cannot be reported: %r", error)
