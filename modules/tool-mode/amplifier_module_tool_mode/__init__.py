"""Let the model change the mode of its session, behind a gate."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from amplifier_kit.config import Config, read_config
from amplifier_kit.modes import ACTIVATED, CHANGED, CLEARED
from amplifier_module_tool_mode.tool import EVENTS, ModeTool

__amplifier_module_type__ = "tool"
__all__ = ["CONFIG", "mount"]

NAME: Final = "tool-mode"


class ModeToolConfig(Config):
    """The config keys of the module."""

    gate_policy: Literal["auto", "warn", "confirm"] = Field(
        "warn",
        description="When the model changes the mode: `auto` does it, `warn` at the second try, `confirm` never.",
    )


CONFIG: Final = ModeToolConfig


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the tool `mode`; raises ConfigError that names every wrong config key."""
    settings = read_config(ModeToolConfig, config, module=NAME)
    coordinator.register_contributor("observability.events", NAME, lambda: list(EVENTS))
    tool = ModeTool(coordinator, settings.gate_policy)
    for event in (ACTIVATED, CHANGED, CLEARED):
        coordinator.hooks.register(event, tool.on_change, name=NAME)
    await coordinator.mount("tools", tool, name=tool.name)
