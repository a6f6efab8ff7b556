"""What is switched off cannot be asked for, and models are chosen by role only where roles are known."""

from __future__ import annotations

import logging
from typing import Any

import pytest

OFF = {
    "self_delegation": False,
    "session_resume": {"enabled": False},
    "context_inheritance": {"enabled": False},
    "provider_selection": False,
}


class Resolver:
    """Know two roles."""

    known_roles = ("general", "fast")

    def __init__(self, found: Any) -> None:
        self._found = found

    async def resolve(self, role: str) -> Any:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


async def test_everything_off(world: Any) -> None:
    """The schema has only agent and instruction, and what is asked for all the same is refused or left out."""
    await world.open({"features": OFF})
    assert set(world.tool.input_schema["properties"]) == {"agent", "instruction"}
    assert "a copy of yourself" not in world.tool.description
    assert (await world.call(agent="self", instruction="x")).error["code"] == "feature_off"
    assert (await world.call(session_id="abc", instruction="x")).error["code"] == "feature_off"
    given: dict[str, Any] = {"provider_preferences": [{"provider": "a"}], "model_role": "fast", "context_depth": "all"}
    await world.call(agent="explorer", instruction="x", **given)
    [asked] = world.spawned
    assert (asked["instruction"], asked["provider_preferences"]) == ("x", None)


async def test_model_role_only_with_a_resolver(world: Any) -> None:
    """The parameter is there as soon as the session knows roles, with just these."""
    await world.open()
    assert "model_role" not in world.tool.input_schema["properties"]
    world.coordinator.register_capability("model_role_resolver", Resolver([]))
    assert world.tool.input_schema["properties"]["model_role"]["enum"] == ["general", "fast"]


async def test_a_role_becomes_preferences(world: Any) -> None:
    """The models of a role are given to the app, and the result says what was chosen; named models count more."""
    await world.open()
    fast = [{"provider": "mock", "model": "small"}]
    world.coordinator.register_capability("model_role_resolver", Resolver(fast))
    result = await world.call(agent="explorer", instruction="x", model_role="fast")
    assert world.spawned[0]["provider_preferences"] == fast
    assert result.output["provider_routing"] == {"model_role": "fast", "provider_preferences": fast}
    assert world.events[0][1].items() >= {"model_role": "fast", "provider_preferences": fast}.items()
    named = [{"provider": "mock", "model": "big-*"}]
    await world.call("c2", agent="explorer", instruction="x", model_role="fast", provider_preferences=named)
    assert world.spawned[1]["provider_preferences"] == named


@pytest.mark.parametrize(
    ("role", "found", "code"),
    [("huge", [], "invalid_input"), ("fast", RuntimeError("no table"), "routing_failed")],
)
async def test_roles_that_lead_nowhere(world: Any, role: str, found: Any, code: str) -> None:
    """An unknown role and a resolver that fails are results that the model can read."""
    await world.open()
    world.coordinator.register_capability("model_role_resolver", Resolver(found))
    result = await world.call(agent="explorer", instruction="x", model_role=role)
    assert result.error["code"] == code


async def test_agents_are_in_the_description(world: Any) -> None:
    """The model is told who there is, as the plan is now."""
    await world.open()
    assert "- amplifier:explorer: Finds things out." in world.tool.description
    world.coordinator.config["agents"] = {"new": {"description": "Just came."}}
    assert "- new: Just came." in world.tool.description
    assert "explorer" not in world.tool.description


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"features": []}, "features"),
        ({"features": {"self_delegation": 3}}, "features.self_delegation"),
        ({"features": {"self_delegation": {"max_depth": -1}}}, "features.self_delegation.max_depth"),
        ({"features": {"session_resume": {"enabled": "yes"}}}, "features.session_resume.enabled"),
        ({"settings": {"timeout": 0}}, "settings.timeout"),
    ],
)
async def test_wrong_config_is_refused(world: Any, config: dict[str, Any], key: str) -> None:
    """A value that makes no sense stops the module, by the name of its key."""
    with pytest.raises(ValueError, match=f"^tool-delegate: config key '{key}' must be"):
        await world.open(config)


async def test_unknown_config_is_reported(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    """An unknown key is reported on every level, and otherwise ignored."""
    with caplog.at_level(logging.WARNING):
        await world.open({"setting": {}, "features": {"x": {}, "session_resume": {"on": 1}}, "settings": {"y": 1}})
    for key in ("setting", "features.x", "features.session_resume.on", "settings.y"):
        assert f"tool-delegate: unknown config key '{key}'" in caplog.text
