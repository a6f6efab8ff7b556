"""Run shell commands, bounded in time and output, so that nothing of them is left behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_module_tool_bash._settings import Settings
from amplifier_module_tool_bash._tool import EVENTS, BashTool

__amplifier_module_type__ = "tool"
__all__ = ["BashTool", "mount", "on_session_ready"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Awaitable[None]]:
    """Mount the tool `bash` and return a function that stops its background jobs.

    Raises ValueError that names the config key that is wrong.
    """
    tool = BashTool(coordinator, Settings.from_config(config))
    await coordinator.mount("tools", tool, name=tool.name)
    if hasattr(coordinator, "register_contributor"):
        coordinator.register_contributor("observability.events", "tool-bash", lambda: list(EVENTS))
    return tool.close


async def on_session_ready(coordinator: Any) -> None:
    """Find out, in the background, whether there is a sandbox for commands, and say so."""
    tool = (coordinator.get("tools") or {}).get(BashTool.name)
    if isinstance(tool, BashTool):
        tool.announce()
