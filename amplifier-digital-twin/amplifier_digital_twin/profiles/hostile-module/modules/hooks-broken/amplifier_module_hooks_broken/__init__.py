"""Refuse to be mounted."""

from typing import Any


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Raise."""
    raise RuntimeError("this module never mounts")
