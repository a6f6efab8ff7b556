"""Search files: `grep` by content, `glob` by name."""

from __future__ import annotations

TYPE_CHECKING = False  # see worker.py
if TYPE_CHECKING:
    from typing import Any

__amplifier_module_type__ = "tool"
__all__ = ["mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount both tools.

    Raises ConfigError that names every wrong config key.
    """
    # Imported here: the process that searches without ripgrep loads this package too, and must start fast.
    from amplifier_kit.config import read_config
    from amplifier_module_tool_search.config import SearchConfig
    from amplifier_module_tool_search.tools import GlobTool, GrepTool

    settings = read_config(SearchConfig, config, module="tool-search")
    coordinator.register_contributor("observability.events", "tool-search", lambda: ["tool:progress"])
    for tool in (GrepTool(coordinator, settings), GlobTool(coordinator, settings)):
        await coordinator.mount("tools", tool, name=tool.name)


def __getattr__(name: str) -> Any:
    """Return the config model, which the process that searches does not need."""
    if name == "CONFIG":
        from amplifier_module_tool_search.config import SearchConfig

        return SearchConfig
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
