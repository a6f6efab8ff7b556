"""Delegate to agents: the tool `delegate`."""

from __future__ import annotations

from typing import Any, Final

from amplifier_kit.config import read_config
from amplifier_module_tool_delegate.config import DelegateConfig
from amplifier_module_tool_delegate.tool import EVENTS, DelegateTool

__amplifier_module_type__ = "tool"
CONFIG: Final = DelegateConfig
__all__ = ["CONFIG", "mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the tool and announce its events; raises ConfigError that names every wrong config key."""
    read = read_config(DelegateConfig, config, module="tool-delegate")
    tool = DelegateTool(coordinator, read.settings, read.features)
    coordinator.register_contributor("observability.events", "tool-delegate", EVENTS.names)
    await coordinator.mount("tools", tool, name=tool.name)
