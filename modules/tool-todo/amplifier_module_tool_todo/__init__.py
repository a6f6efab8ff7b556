"""Give the model a todo list for work of several steps."""

from __future__ import annotations

from typing import Any, Final

from amplifier_kit.config import Config, read_config
from amplifier_module_tool_todo.tool import TodoTool

__amplifier_module_type__ = "tool"
__all__ = ["CONFIG", "mount"]


class TodoConfig(Config):
    """No keys."""


CONFIG: Final = TodoConfig


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the tool `todo`; it has no config, and keys that are given are ignored with a warning."""
    read_config(TodoConfig, config, module="tool-todo")
    tool = TodoTool(coordinator)
    await coordinator.mount("tools", tool, name=tool.name)
