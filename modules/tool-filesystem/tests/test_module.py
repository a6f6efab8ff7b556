"""The module passes the tests of its kind, and mounts what the published one mounts."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.behavioral import ToolBehaviorTests
from amplifier_core.validation.structural import ToolStructuralTests
from amplifier_module_tool_filesystem import mount


class TestStructure(ToolStructuralTests):
    """The validator has nothing to say against it."""


class TestBehavior(ToolBehaviorTests):
    """It behaves as every tool must."""


async def test_three_tools_with_their_schemas() -> None:
    """Names, actions and parameters are the published ones."""
    coordinator: Any = MockCoordinator()
    await mount(coordinator)
    tools = coordinator.get("tools")
    assert {name: tool.action for name, tool in tools.items()} == {
        "read_file": "filesystem.read",
        "write_file": "filesystem.write",
        "edit_file": "filesystem.write",
    }
    schemas = {name: tool.input_schema for name, tool in tools.items()}
    assert {name: (list(schema["properties"]), schema["required"]) for name, schema in schemas.items()} == {
        "read_file": (["file_path", "offset", "limit"], ["file_path"]),
        "write_file": (["file_path", "content"], ["file_path", "content"]),
        "edit_file": (
            ["file_path", "old_string", "new_string", "replace_all"],
            ["file_path", "old_string", "new_string"],
        ),
    }
    defaults = {key: value.get("default") for schema in schemas.values() for key, value in schema["properties"].items()}
    assert (defaults["offset"], defaults["limit"], defaults["replace_all"]) == (1, 2000, False)


async def test_wrong_config_is_named() -> None:
    """A config key that makes no sense is named."""
    with pytest.raises(ValueError, match=r"tool-filesystem: config key 'denied_write_paths'"):
        await mount(MockCoordinator(), {"denied_write_paths": "x"})
