"""Delegate to an agent and wait for its answer: the tool `task`."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from amplifier_kit.config import read_config
from amplifier_kit.engine.delegation.request import EXCLUDE_TOOLS, DelegationConfig, ModuleNames
from amplifier_module_tool_task.tool import EVENTS, TaskTool

__amplifier_module_type__ = "tool"
__all__ = ["CONFIG", "TaskConfig", "mount"]


class TaskConfig(DelegationConfig):
    """The limits of child sessions, which by default cannot use this tool."""

    exclude_tools: ModuleNames | None = Field(("tool-task",), description=EXCLUDE_TOOLS)


CONFIG: Final = TaskConfig


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the tool and announce its events; raises ConfigError that names every wrong config key."""
    tool = TaskTool(coordinator, read_config(TaskConfig, config, module="tool-task"))
    coordinator.register_contributor("observability.events", "tool-task", EVENTS.names)
    await coordinator.mount("tools", tool, name=tool.name)
