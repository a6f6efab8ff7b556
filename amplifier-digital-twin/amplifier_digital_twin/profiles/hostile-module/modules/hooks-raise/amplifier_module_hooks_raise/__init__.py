"""Raise at every event there is."""

from typing import Any

from amplifier_core.events import ALL_EVENTS


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Register a handler that raises, for every event."""

    async def burst(event: str, data: dict[str, Any]) -> None:
        raise RuntimeError(f"a fault at {event}")

    for event in ALL_EVENTS:
        coordinator.hooks.register(event, burst, name="hooks-raise")
