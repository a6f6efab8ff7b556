"""Hear a prompt and never come back from it."""

import asyncio
from typing import Any


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Register a handler that waits for ever."""

    async def wait(event: str, data: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    coordinator.hooks.register("prompt:submit", wait, name="hooks-hang")
