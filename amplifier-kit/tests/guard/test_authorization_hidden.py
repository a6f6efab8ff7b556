"""What a session hides is asked for in one way, and what cannot be told is hidden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.guard.authorization import CAPABILITY, HidingError, hiding
from amplifier_kit.guard.policy.paths import hidden_paths
from amplifier_kit.guard.policy.rules import Rule

PROJECT = Path("/project")


def offering(value: Any) -> MockCoordinator:
    """Return a coordinator with the capability."""
    made: MockCoordinator = MockCoordinator()
    made.register_capability(CAPABILITY, value)
    return made


def test_nobody_hides_anything() -> None:
    """Without the capability, with no rules, and on a kernel without capabilities, there is nothing to ask."""
    assert hiding(MockCoordinator(), "grep", "/project") is None
    assert hiding(offering(lambda tool: None), "grep", "/project") is None
    assert hiding(object(), "grep", "/project") is None


def test_a_function_is_asked_for_the_tool() -> None:
    """What the capability returns for the tool is what is asked."""
    coordinator = offering(lambda tool: (lambda path: path.endswith("key")) if tool == "grep" else None)
    is_hidden = hiding(coordinator, "grep", "/project")
    assert is_hidden is not None
    assert (is_hidden("/project/key"), is_hidden("/project/a")) == (True, False)
    assert hiding(coordinator, "glob", "/project") is None


def test_a_question_that_was_answered_is_not_asked_again() -> None:
    """A place that a person was asked for shows what the same rule is about; a denial below it stays."""
    rules = [Rule("ask", path="docs/**"), Rule("deny", path="docs/keys/**")]
    coordinator = offering(lambda tool: hidden_paths(rules, PROJECT, tool))
    above, there = (hiding(coordinator, "grep", place) for place in ("/project", "/project/docs"))
    assert above is not None
    assert there is not None
    assert (above("/project/docs/a"), there("/project/docs/a")) == (True, False)
    assert (above("/project/docs/keys/a"), there("/project/docs/keys/a")) == (True, True)
    asking = offering(lambda tool: hidden_paths(rules[:1], PROJECT, tool))
    assert hiding(asking, "grep", "/project/docs") is None


def _raising(*_: Any) -> Any:
    raise RuntimeError("the rules are gone")


class _Within:
    def __init__(self, within: Callable[[str], Any]) -> None:
        self.within = within

    def __call__(self, path: str) -> bool:
        return False


@pytest.mark.parametrize("capability", ["text", _raising, lambda tool: 7, lambda tool: _Within(_raising)])
def test_what_cannot_be_asked_is_an_error(capability: Any) -> None:
    """A capability that fails or makes no sense never means that nothing is hidden."""
    with pytest.raises(HidingError, match="cannot find out which paths the rules restrict"):
        hiding(offering(capability), "grep", "/project")


def test_a_failure_on_the_way_is_an_error() -> None:
    """The reason is told."""
    is_hidden = hiding(offering(lambda tool: _raising), "grep", "/project")
    assert is_hidden is not None
    with pytest.raises(HidingError, match="RuntimeError: the rules are gone"):
        is_hidden("/project/a")


@pytest.mark.parametrize("answer", [None, 0, "", "no", 1])
def test_only_a_clear_no_shows(answer: Any) -> None:
    """Whatever else is answered hides."""
    is_hidden = hiding(offering(lambda tool: lambda path: answer), "grep", "/project")
    assert is_hidden is not None
    assert is_hidden("/project/a")
