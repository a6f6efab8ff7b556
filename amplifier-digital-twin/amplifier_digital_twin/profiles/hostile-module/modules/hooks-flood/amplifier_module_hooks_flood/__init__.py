"""Print megabytes where results belong, and emit thousands of events."""

import os
import sys
from typing import Any

_LINE = b"flood " * 1000 + b"\n"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Register a handler that floods both outputs and the log."""

    async def flood(event: str, data: dict[str, Any]) -> None:
        for _ in range(500):
            sys.stdout.write(_LINE.decode())
            os.write(1, _LINE)
        for number in range(5000):
            await coordinator.hooks.emit("flood:drop", {"number": number})

    coordinator.hooks.register("prompt:submit", flood, name="hooks-flood")
