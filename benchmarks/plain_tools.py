"""A module of this process whose tools are plain functions, for sessions that are measured in it."""

from __future__ import annotations

import sys
import types
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Tool = Callable[[dict[str, Any]], Awaitable[str]]


def add_module(identity: str, tools_of: Callable[[Any], Mapping[str, Tool]]) -> None:
    """Make a module known; `tools_of` takes the coordinator of a session and returns its tools by name."""
    from amplifier_testing.loop.fakes import PlainTool

    module = types.ModuleType(f"amplifier_module_{identity.replace('-', '_')}")

    async def mount(coordinator: Any, config: Any = None) -> dict[str, Any]:
        for name, tool in tools_of(coordinator).items():
            await coordinator.mount("tools", PlainTool(name, tool, action="filesystem.read"))
        return {"name": identity}

    mount.__module__ = module.__name__
    module.mount = mount  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
