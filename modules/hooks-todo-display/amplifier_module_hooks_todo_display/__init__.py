"""Show a person the todo list whenever it changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from amplifier_core.events import TOOL_POST, TOOL_PRE
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.config import read_config
from amplifier_module_hooks_todo_display.config import TodoDisplayConfig
from amplifier_module_hooks_todo_display.render import todo_lines, todos_of

__amplifier_module_type__ = "hook"
CONFIG: Final = TodoDisplayConfig
__all__ = ["CONFIG", "mount"]

NAME: Final = "hooks-todo-display"
_TOOL: Final = "todo"
_PRIORITY: Final = 5


class TodoDisplay:
    """Show the list of one session."""

    def __init__(self, coordinator: Any, settings: TodoDisplayConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._before: list[dict[str, str]] = []

    def on_tool_pre(self, event: str, data: Any) -> None:
        """Remember the list before a call of the todo tool."""
        if _is_todo(data):
            self._before = self._todos()

    async def on_tool_post(self, event: str, data: Any) -> None:
        """Show the list when the call has changed it."""
        display = self._coordinator.display_system
        if not _is_todo(data) or display is None or (todos := self._todos()) == self._before:
            return
        self._before = todos
        if lines := todo_lines(todos, self._settings):
            text = "\n".join(["", *lines] if len(lines) > 1 else lines)
            await maybe_await(display.show_message(text, "info", NAME))

    def _todos(self) -> list[dict[str, str]]:
        return todos_of(getattr(self._coordinator, "todo_state", None))


def _is_todo(data: Any) -> bool:
    return isinstance(data, Mapping) and data.get("tool_name") == _TOOL


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the handlers and return a function that unregisters them.

    Raises ConfigError that names every wrong config key.
    """
    settings = read_config(TodoDisplayConfig, config, module=NAME)
    shown = TodoDisplay(coordinator, settings)
    register = coordinator.hooks.register
    registrations = [
        register(TOOL_PRE, shown.on_tool_pre, priority=_PRIORITY, name=NAME),
        register(TOOL_POST, shown.on_tool_post, priority=_PRIORITY, name=NAME),
    ]

    def unregister_all() -> None:
        for unregister in registrations:
            unregister()

    return unregister_all
