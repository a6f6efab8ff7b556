"""Run shell commands, bounded in time and output, so that nothing of them is left behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from amplifier_kit.config import read_config
from amplifier_module_tool_bash.config import BashConfig
from amplifier_module_tool_bash.tool import EVENTS, BashTool

__amplifier_module_type__ = "tool"
CONFIG: Final = BashConfig
__all__ = ["CONFIG", "BashTool", "mount", "on_session_ready"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Awaitable[None]]:
    """Mount the tool `bash` and return a function that stops its background jobs.

    Raises ConfigError that names every wrong config key.
    """
    tool = BashTool(coordinator, read_config(BashConfig, config, module="tool-bash"))
    await coordinator.mount("tools", tool, name=tool.name)
    if hasattr(coordinator, "register_contributor"):
        coordinator.register_contributor("observability.events", "tool-bash", lambda: list(EVENTS))
    return tool.close


async def on_session_ready(coordinator: Any) -> None:
    """Find out, in the background, whether there is a sandbox for commands, and say so."""
    tool = (coordinator.get("tools") or {}).get(BashTool.name)
    if isinstance(tool, BashTool):
        tool.announce()
