"""Search files: `grep` for what is in them, `glob` for their names."""

from __future__ import annotations

TYPE_CHECKING = False  # see worker.py
if TYPE_CHECKING:
    from typing import Any

__amplifier_module_type__ = "tool"
__all__ = ["mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount both tools.

    Raises ValueError that names the config key that is wrong.
    """
    # Imported here: the process that searches without ripgrep loads this package too, and must start fast.
    from amplifier_module_tool_search.glob import GlobTool
    from amplifier_module_tool_search.grep import GrepTool
    from amplifier_module_tool_search.settings import Settings

    settings = Settings.from_config(config)
    coordinator.register_contributor("observability.events", "tool-search", lambda: ["tool:progress"])
    for tool in (GrepTool(coordinator, settings), GlobTool(coordinator, settings)):
        await coordinator.mount("tools", tool, name=tool.name)
