"""Which agents a session has, and how they are found."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from amplifier_kit.engine.delegation.request import AgentDirectory, DelegationError

AGENTS = {
    "amplifier:explorer": {"description": "Finds\n  things out."},
    "mine:explorer": {"meta": {"description": "y" * 700}},
    "builder": None,
    "amplifier:reviewer": {},
    "include": ["x"],
}


def test_agents_are_described_in_a_line_each() -> None:
    """The description is one line of bounded length; an agent without one is named all the same."""
    lines = AgentDirectory.of(SimpleNamespace(config={"agents": AGENTS})).describe().split("\n")
    assert lines[0] == "- amplifier:explorer: Finds things out."
    assert lines[1] == f"- mine:explorer: {'y' * 600}..."
    assert lines[2:] == ["- builder: (no description)", "- amplifier:reviewer: (no description)"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("amplifier:explorer", "amplifier:explorer"),
        ("reviewer", "amplifier:reviewer"),
        ("builder", "builder"),
        ("elsewhere:thing", "elsewhere:thing"),
    ],
)
def test_names_that_are_found(name: str, found: str) -> None:
    """The full name and an unambiguous last part are found; a name with a namespace is left to the app."""
    assert AgentDirectory(AGENTS).find(name) == found


@pytest.mark.parametrize(
    ("agents", "name", "hint"),
    [
        (AGENTS, "explorer", "say which of 'amplifier:explorer', 'mine:explorer' you mean"),
        (AGENTS, "reviwer", "did you mean 'amplifier:reviewer'?"),
        (AGENTS, "zzz", "there are amplifier:explorer, mine:explorer, builder, amplifier:reviewer"),
        ({}, "explorer", "this session has no agents"),
        (None, "explorer", "this session has no agents"),
    ],
)
def test_names_that_are_not_found(agents: dict[str, object] | None, name: str, hint: str) -> None:
    """Who is asked for and not there is named with the nearest agents."""
    with pytest.raises(DelegationError) as caught:
        AgentDirectory(agents).find(name)
    assert str(caught.value).startswith(f"There is no agent '{name}': {hint}")
    assert caught.value.code == "unknown_agent"


@pytest.mark.parametrize("config", [None, {}, {"agents": "all"}, {"agents": None}])
def test_a_plan_without_agents(config: object) -> None:
    """A plan that lists no agents has none."""
    assert AgentDirectory.of(SimpleNamespace(config=config)).describe() == ""
