"""Show a person what the session thinks, which tools it calls with what result, and what it spends, as it happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_module_hooks_streaming_ui._settings import Settings
from amplifier_module_hooks_streaming_ui._ui import NAME, StreamingUI

__amplifier_module_type__ = "hook"
__all__ = ["mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the handlers and return a function that takes them away and shows what is still half said.

    Raises ValueError that names the config key that is wrong.
    """
    settings = Settings.from_config(config)
    ui = StreamingUI(coordinator, settings)
    handlers = [
        coordinator.hooks.register(event, handler, priority=settings.priority, name=NAME)
        for event, handler in ui.handlers().items()
    ]

    def close() -> None:
        for unregister in handlers:
            unregister()
        ui.close()

    return close
