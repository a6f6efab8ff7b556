"""Keep the whole session in memory, and compact only the requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_kit.config import read_config
from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.token_budget import ContextConfig

__amplifier_module_type__ = "context"
CONFIG: Final = ContextConfig
__all__ = ["CONFIG", "SimpleContextManager", "mount"]


class SimpleContextManager(BaseContext):
    """A context manager in memory; see `BaseContext`."""

    name = "context-simple"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Any]:
    """Mount the context manager and return its cleanup; raise ConfigError that names every wrong config key."""
    settings = read_config(ContextConfig, config, module=SimpleContextManager.name)
    context = SimpleContextManager(settings, coordinator)
    await coordinator.mount("context", context)
    return context.attach()
