"""Show that a long command is alive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from amplifier_kit.guard.processes import Output

TOOL_PROGRESS: Final = "tool:progress"
#: Seconds between two signs of life.
EVERY: Final = 2.0
_LONGEST_LINE: Final = 200
#: Seconds a listener may take to end once nobody waits for it.
_GRACE: Final = 0.5


@asynccontextmanager
async def progress(
    coordinator: Any, tool_name: str, outputs: Sequence[Output], every: float = EVERY
) -> AsyncIterator[None]:
    """Emit `tool:progress` from time to time for as long as the block runs."""
    telling = asyncio.create_task(_tell(coordinator, {"tool_name": tool_name} | call_of(coordinator), outputs, every))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait([telling], timeout=_GRACE)


def call_of(coordinator: Any) -> dict[str, Any]:
    """Return which call the current task carries out, as the loops note it."""
    known = getattr(coordinator, "_tool_dispatch_contexts", None)
    dispatch = known.get(asyncio.current_task()) if isinstance(known, dict) else None
    call = dispatch.get("tool_call_id") if isinstance(dispatch, dict) else None
    return {"tool_call_id": call} if call else {}


async def _tell(coordinator: Any, base: dict[str, Any], outputs: Sequence[Output], every: float) -> None:
    since = time.monotonic()
    while True:
        await asyncio.sleep(every)
        elapsed = time.monotonic() - since
        line = next((line for line in (output.last_line() for output in outputs) if line), "")[:_LONGEST_LINE]
        told = {
            "message": f"running for {elapsed:.0f} s" + (f": {line}" if line else ""),
            "elapsed": round(elapsed, 1),
            "last_line": line,
            "output_bytes": sum(output.total for output in outputs),
        }
        await coordinator.hooks.emit(TOOL_PROGRESS, base | told)
