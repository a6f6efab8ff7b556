"""What a call does, by its tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from amplifier_kit.guard.authorization import action_of, question_of


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


class _Placed:
    def __init__(self, folder: Any) -> None:
        self.folder = folder

    @property
    def working_dir(self) -> Any:
        if isinstance(self.folder, Exception):
            raise self.folder
        return self.folder


_CALL = {"tool_name": "run", "tool_input": {"command": "x"}, "tool_call_id": "c1"}


@pytest.mark.parametrize("folder", ["/elsewhere", Path("/elsewhere")])
def test_a_tool_says_where_it_works(folder: Any) -> None:
    """Whoever judges a relative path has to know the folder that it starts from."""
    assert question_of(_Placed(folder), {**_CALL, "other": 1}) == {**_CALL, "working_dir": "/elsewhere"}


class _Connected:
    network_host = "html.example"


def test_a_tool_says_which_host_it_asks() -> None:
    """A tool whose input names no host, and which always asks the same one, lets rules judge that host."""
    assert question_of(_Connected(), _CALL) == {**_CALL, "host": "html.example"}


@pytest.mark.parametrize("tool", [None, object(), MagicMock(), _Placed(""), _Placed(7), _Placed(OSError("x"))])
def test_a_tool_that_does_not_say_where_it_works(tool: Any) -> None:
    """A tool that says nothing of the kind, or fails to, works where the session does."""
    assert question_of(tool, _CALL) == _CALL
