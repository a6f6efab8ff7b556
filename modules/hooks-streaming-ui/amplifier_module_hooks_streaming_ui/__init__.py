"""Show the model's thinking, tool calls with their results, and token usage as they happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_kit.config import read_config
from amplifier_module_hooks_streaming_ui.config import UiConfig
from amplifier_module_hooks_streaming_ui.ui import NAME, StreamingUI

__amplifier_module_type__ = "hook"
CONFIG: Final = UiConfig
__all__ = ["CONFIG", "mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the handlers and return a function that unregisters them and shows unfinished lines.

    Raises ConfigError that names every wrong config key.
    """
    settings = read_config(UiConfig, config, module="hooks-streaming-ui")
    ui = StreamingUI(coordinator, settings.ui)
    handlers = [
        coordinator.hooks.register(event, handler, priority=settings.priority, name=NAME)
        for event, handler in ui.handlers().items()
    ]

    def close() -> None:
        for unregister in handlers:
            unregister()
        ui.close()

    return close
