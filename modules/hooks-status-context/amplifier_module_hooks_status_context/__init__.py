"""Tell the model at every request where and when it works: folder, session, platform, date, and the state of git."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_core.events import PROVIDER_REQUEST
from amplifier_kit.config import read_config
from amplifier_module_hooks_status_context.config import StatusConfig
from amplifier_module_hooks_status_context.status_context import NAME, StatusContext

__amplifier_module_type__ = "hook"
CONFIG: Final = StatusConfig
__all__ = ["CONFIG", "mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the handler and return a function that unregisters it.

    Raises ConfigError that names every wrong config key.
    """
    settings = read_config(StatusConfig, config, module="hooks-status-context")
    status = StatusContext(coordinator, settings)
    unregister: Callable[[], None] = coordinator.hooks.register(
        PROVIDER_REQUEST, status.on_provider_request, priority=settings.priority, name=NAME
    )
    return unregister
