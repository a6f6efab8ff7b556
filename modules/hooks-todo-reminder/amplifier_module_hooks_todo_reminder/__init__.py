"""Show the model its todo list at every request, and remind it of the tool when it has not used it for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_core.events import PROVIDER_REQUEST, TOOL_POST
from amplifier_module_hooks_todo_reminder._reminder import NAME, TodoReminder
from amplifier_module_hooks_todo_reminder._settings import Settings

__amplifier_module_type__ = "hook"
__all__ = ["mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the two handlers and return a function that takes them away.

    Raises ValueError that names the config key that is wrong.
    """
    settings = Settings.from_config(config)
    reminder = TodoReminder(coordinator, settings)
    register = coordinator.hooks.register
    handlers = [
        register(TOOL_POST, reminder.on_tool_post, priority=settings.priority, name=f"{NAME}-tracker"),
        register(PROVIDER_REQUEST, reminder.on_provider_request, priority=settings.priority, name=NAME),
    ]

    def unregister() -> None:
        for take_away in handlers:
            take_away()

    return unregister
