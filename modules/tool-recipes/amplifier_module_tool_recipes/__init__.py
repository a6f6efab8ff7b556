"""Run recipes: work of many steps that can be approved, stopped and resumed. The tool `recipes`."""

from __future__ import annotations

from typing import Any, Final

from amplifier_kit.config import read_config
from amplifier_module_tool_recipes.config import RecipesConfig

__amplifier_module_type__ = "tool"
CONFIG: Final = RecipesConfig
__all__ = ["CONFIG", "mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the tool `recipes` and announce its events; raises ConfigError that names every wrong config key."""
    from amplifier_module_tool_recipes.tool import EVENTS, RecipesTool

    tool = RecipesTool(coordinator, read_config(RecipesConfig, config, module="tool-recipes"))
    coordinator.register_contributor("observability.events", "tool-recipes", lambda: list(EVENTS))
    await coordinator.mount("tools", tool, name=tool.name)
