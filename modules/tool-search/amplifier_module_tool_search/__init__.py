"""Search files: `grep` by content, `glob` by name."""

from __future__ import annotations

from typing import Any

from amplifier_kit.config import read_config
from amplifier_module_tool_search.config import SearchConfig
from amplifier_module_tool_search.tools import GlobTool, GrepTool

__amplifier_module_type__ = "tool"
__all__ = ["mount"]

CONFIG = SearchConfig


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount both tools.

    Raises ConfigError that names every wrong config key.
    """
    settings = read_config(SearchConfig, config, module="tool-search")
    coordinator.register_contributor("observability.events", "tool-search", lambda: ["tool:progress"])
    for tool in (GrepTool(coordinator, settings), GlobTool(coordinator, settings)):
        await coordinator.mount("tools", tool, name=tool.name)
