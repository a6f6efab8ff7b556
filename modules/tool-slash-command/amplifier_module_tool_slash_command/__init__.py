"""Give the model the commands that the user and the project keep as files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_kit.config import read_config
from amplifier_module_tool_slash_command.config import SlashCommandConfig
from amplifier_module_tool_slash_command.tool import SlashCommandTool

__amplifier_module_type__ = "tool"
CONFIG: Final = SlashCommandConfig
__all__ = ["CONFIG", "mount"]

NAME: Final = "tool-slash-command"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None] | None:
    """Mount the tool `slash_command`, and return what unregisters its policy, if the kernel has policies.

    Raises ConfigError that names every wrong config key.
    """
    settings = read_config(SlashCommandConfig, config, module=NAME)
    tool = SlashCommandTool(coordinator, settings)
    await coordinator.mount("tools", tool, name=tool.name)
    if not hasattr(coordinator, "register_policy"):
        return None
    unregister: Callable[[], None] = coordinator.register_policy(NAME, tool.policy)
    return unregister
