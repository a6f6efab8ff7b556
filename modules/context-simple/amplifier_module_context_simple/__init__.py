"""Keep the session in memory, whole, and compact only what the model sees of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_kit.engine.context import BaseContext, ContextSettings

__all__ = ["SimpleContextManager", "mount"]

__amplifier_module_type__ = "context"


class SimpleContextManager(BaseContext):
    """Be a context manager in memory; see `BaseContext` for what it does."""

    name = "context-simple"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Any]:
    """Mount the context manager and return its cleanup; raise ValueError for a config that makes no sense."""
    settings = ContextSettings.from_config(config, module=SimpleContextManager.name)
    context = SimpleContextManager(settings, coordinator)
    await coordinator.mount("context", context)
    return context.attach()
