"""What a call does, by its tool."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from amplifier_kit.action import action_of


class _Tool:
    action = "process.exec"

    def __init__(self, said: Any) -> None:
        self.said = said

    def action_for(self, given: dict[str, Any]) -> Any:
        if isinstance(self.said, Exception):
            raise self.said
        given.clear()
        return self.said


@pytest.mark.parametrize(
    ("said", "action"),
    [("tool.look", "tool.look"), (None, "process.exec"), ("", "process.exec"), (OSError("x"), "process.exec")],
)
def test_a_tool_says_what_an_input_does(said: Any, action: str) -> None:
    """What a tool says of an input counts, else what it says of itself; it cannot change the input."""
    given = {"command": "x"}
    assert action_of(_Tool(said), "run", given) == action
    assert given == {"command": "x"}


@pytest.mark.parametrize("tool", [object(), None, MagicMock()])
def test_a_tool_that_says_nothing(tool: Any) -> None:
    """A tool without an action is known by its name, as is one that answers anything to everything."""
    assert action_of(tool, "run", {}) == "tool.run"
