"""Hand work to agents: the tool `delegate`."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_module_tool_delegate._features import read_config
from amplifier_module_tool_delegate._tool import EVENTS, DelegateTool

__amplifier_module_type__ = "tool"
__all__ = ["mount"]

logger = logging.getLogger(__name__)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the tool and announce its events; raises ValueError that names the config key that is wrong."""
    features, settings, ignored = read_config(config or {})
    for text in ignored:
        logger.warning("tool-delegate: %s", text)
    tool = DelegateTool(coordinator, settings, features)
    coordinator.register_contributor("observability.events", "tool-delegate", EVENTS.names)
    await coordinator.mount("tools", tool, name=tool.name)
