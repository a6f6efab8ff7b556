"""Hand work to an agent and wait for its answer: the tool `task`."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_kit.engine.delegation.settings import SETTING_KEYS, DelegationSettings, unknown_keys
from amplifier_module_tool_task._tool import EVENTS, TaskTool

__amplifier_module_type__ = "tool"
__all__ = ["mount"]

logger = logging.getLogger(__name__)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the tool and announce its events; raises ValueError that names the config key that is wrong."""
    config = config or {}
    for text in unknown_keys(config, SETTING_KEYS):
        logger.warning("tool-task: %s", text)
    tool = TaskTool(coordinator, DelegationSettings.from_config(config, exclude_tools=["tool-task"]))
    coordinator.register_contributor("observability.events", "tool-task", EVENTS.names)
    await coordinator.mount("tools", tool, name=tool.name)
