"""Report the progress of a long command."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from amplifier_kit.guard.processes.output import Output

TOOL_PROGRESS: Final = "tool:progress"
#: Seconds between two reports.
EVERY: Final = 2.0
_LONGEST_LINE: Final = 200
#: Seconds for a listener to end when the command has ended.
_GRACE: Final = 0.5


@asynccontextmanager
async def progress(
    coordinator: Any, tool_name: str, outputs: Sequence[Output], every: float = EVERY
) -> AsyncIterator[None]:
    """Emit `tool:progress` at intervals while the block runs."""
    reporting = asyncio.create_task(
        _report(coordinator, {"tool_name": tool_name} | call_of(coordinator), outputs, every)
    )
    try:
        yield
    finally:
        reporting.cancel()
        await asyncio.wait([reporting], timeout=_GRACE)


def call_of(coordinator: Any) -> dict[str, Any]:
    """Return the tool call that the current task executes, as the turn loop records it."""
    known = getattr(coordinator, "_tool_dispatch_contexts", None)
    dispatch = known.get(asyncio.current_task()) if isinstance(known, dict) else None
    call = dispatch.get("tool_call_id") if isinstance(dispatch, dict) else None
    return {"tool_call_id": call} if call else {}


async def _report(coordinator: Any, base: dict[str, Any], outputs: Sequence[Output], every: float) -> None:
    since = time.monotonic()
    while True:
        await asyncio.sleep(every)
        elapsed = time.monotonic() - since
        line = next((line for line in (output.last_line() for output in outputs) if line), "")[:_LONGEST_LINE]
        data = {
            "message": f"running for {elapsed:.0f} s" + (f": {line}" if line else ""),
            "elapsed": round(elapsed, 1),
            "last_line": line,
            "output_bytes": sum(output.total for output in outputs),
        }
        await coordinator.hooks.emit(TOOL_PROGRESS, base | data)
