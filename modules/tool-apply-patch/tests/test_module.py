"""The module passes the tests of its kind, and announces what the published one announces."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.behavioral import ToolBehaviorTests
from amplifier_core.validation.structural import ToolStructuralTests
from amplifier_module_tool_apply_patch import mount


class TestStructure(ToolStructuralTests):
    """The validator has nothing to say against it."""


class TestBehavior(ToolBehaviorTests):
    """It behaves as every tool must."""


@pytest.mark.parametrize(
    ("config", "engine", "properties", "required"),
    [
        (None, "native", ["type", "path", "diff"], ["type", "path"]),
        ({"engine": "native"}, "native", ["type", "path", "diff"], ["type", "path"]),
        ({"engine": "function"}, "function", ["patch"], ["patch"]),
    ],
)
async def test_two_engines(config: Any, engine: str, properties: list[str], required: list[str]) -> None:
    """The engine decides the schema, and a capability tells it to providers."""
    coordinator: Any = MockCoordinator()
    await mount(coordinator, config)
    tool = coordinator.get("tools")["apply_patch"]
    assert (list(tool.input_schema["properties"]), tool.input_schema["required"]) == (properties, required)
    assert tool.action == "filesystem.write"
    assert coordinator.get_capability("apply_patch.engine") == engine
    assert await coordinator.collect_contributions("observability.events") == [["apply-patch:applied"]]


async def test_wrong_config_is_named() -> None:
    """An engine that nobody knows is refused."""
    with pytest.raises(ValueError, match=r"config key 'engine' must be one of native, function, got 'steam'"):
        await mount(MockCoordinator(), {"engine": "steam"})
