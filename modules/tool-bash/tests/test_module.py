"""The module passes the tests of its kind."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.validation.behavioral import ToolBehaviorTests
from amplifier_core.validation.structural import ToolStructuralTests
from amplifier_module_tool_bash import mount


class TestStructure(ToolStructuralTests):
    """The validator has nothing to say against it."""


class TestBehavior(ToolBehaviorTests):
    """It behaves as every tool must."""


async def test_mount(coordinator: Any) -> None:
    """The tool is mounted under its published name, its event is made known, and cleaning up can be done twice."""
    cleanup = await mount(coordinator, {})
    tool = coordinator.get("tools")["bash"]
    assert (tool.name, tool.action, tool.deadline) == ("bash", "process.exec", None)
    assert await coordinator.collect_contributions("observability.events") == [
        ["tool:progress", "sandbox:status", "sandbox:blocked"]
    ]
    await cleanup()
    await cleanup()


async def test_a_wrong_config_is_named(coordinator: Any) -> None:
    """A value that means nothing keeps the module from mounting, and the key is named."""
    with pytest.raises(ValueError, match="config key 'safety_profile' must be one of strict, standard"):
        await mount(coordinator, {"safety_profile": "lax"})


async def test_the_published_schema(coordinator: Any) -> None:
    """The published input keys are there with their defaults; what is added is optional."""
    await mount(coordinator, None)
    tool = coordinator.get("tools")["bash"]
    properties = tool.input_schema["properties"]
    assert tool.input_schema["required"] == ["command"]
    assert properties["command"]["type"] == "string"
    assert (properties["timeout"]["type"], properties["timeout"]["default"]) == ("integer", 30)
    assert properties["run_in_background"] | {"description": ""} == {
        "type": "boolean",
        "default": False,
        "description": "",
    }
    assert set(properties) == {"command", "timeout", "run_in_background", "job"}


async def test_approval_hints(coordinator: Any) -> None:
    """Metadata says whether the bundle wants approval."""
    await mount(coordinator, {"require_approval": False, "denied_commands": ["git push"]})
    metadata = coordinator.get("tools")["bash"].get_metadata()
    assert metadata["requires_approval"] is False
    assert metadata["approval_hints"]["denied_commands"] == ["git push"]
