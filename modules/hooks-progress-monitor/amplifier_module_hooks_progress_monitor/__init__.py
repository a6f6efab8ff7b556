"""Tell the model when it has read a lot and changed nothing, or reads one file over and over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_core.events import TOOL_POST
from amplifier_kit.config import read_config
from amplifier_module_hooks_progress_monitor.monitor import NAME, ProgressConfig, ProgressMonitor

__amplifier_module_type__ = "hook"
CONFIG: Final = ProgressConfig
__all__ = ["CONFIG", "mount"]

_PRIORITY: Final = 50


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the handler and return a function that unregisters it.

    Raises ConfigError that names every wrong config key.
    """
    settings = read_config(ProgressConfig, config, module=NAME)
    monitor = ProgressMonitor(settings, getattr(coordinator, "injection_size_limit", None))
    unregister: Callable[[], None] = coordinator.hooks.register(
        TOOL_POST, monitor.on_tool_post, priority=_PRIORITY, name=NAME
    )
    return unregister
