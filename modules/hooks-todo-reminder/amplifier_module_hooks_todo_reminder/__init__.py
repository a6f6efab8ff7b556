"""Show the model its todo list at every request, and remind it of the tool when it has not used it for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_core.events import PROVIDER_REQUEST, TOOL_POST
from amplifier_kit.config import read_config
from amplifier_module_hooks_todo_reminder.config import ReminderConfig
from amplifier_module_hooks_todo_reminder.reminder import NAME, TodoReminder

__amplifier_module_type__ = "hook"
CONFIG: Final = ReminderConfig
__all__ = ["CONFIG", "mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the two handlers and return a function that unregisters them.

    Raises ConfigError that names every wrong config key.
    """
    settings = read_config(ReminderConfig, config, module="hooks-todo-reminder")
    reminder = TodoReminder(coordinator, settings)
    register = coordinator.hooks.register
    registrations = [
        register(TOOL_POST, reminder.on_tool_post, priority=settings.priority, name=f"{NAME}-tracker"),
        register(PROVIDER_REQUEST, reminder.on_provider_request, priority=settings.priority, name=NAME),
    ]

    def unregister_all() -> None:
        for unregister in registrations:
            unregister()

    return unregister_all
