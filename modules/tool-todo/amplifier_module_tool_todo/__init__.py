"""Give the model a todo list for work of several steps."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_module_tool_todo._tool import TodoTool

__amplifier_module_type__ = "tool"
__all__ = ["mount"]

logger = logging.getLogger(__name__)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the tool `todo`; it has no config, and keys that are given are ignored with a warning."""
    if config:
        logger.warning("tool-todo: unknown config keys %s are ignored", sorted(map(str, config)))
    tool = TodoTool(coordinator)
    await coordinator.mount("tools", tool, name=tool.name)
