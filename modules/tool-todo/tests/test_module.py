"""The module passes the tests of its kind."""

from __future__ import annotations

import logging

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.behavioral import ToolBehaviorTests
from amplifier_core.validation.structural import ToolStructuralTests
from amplifier_module_tool_todo import mount


class TestStructure(ToolStructuralTests):
    """The validator has nothing to say against it."""


class TestBehavior(ToolBehaviorTests):
    """It behaves as every tool must."""


async def test_config_keys_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A key that means nothing here does not stop the session, and is named."""
    coordinator = MockCoordinator()
    with caplog.at_level(logging.WARNING):
        await mount(coordinator, {"colour": "blue"})
    assert "colour" in caplog.text
    assert "todo" in coordinator.get("tools")
