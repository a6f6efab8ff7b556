"""Provider preferences, as published modules use them."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_foundation import (
    ProviderPreference,
    apply_provider_preferences,
    apply_provider_preferences_with_resolution,
    is_glob_pattern,
    resolve_model_pattern,
)

PLAN: dict[str, Any] = {
    "providers": [
        {"module": "provider-openai", "config": {"priority": 0, "api_key": "mine"}},
        {"module": "provider-anthropic", "config": {"priority": 5}},
    ]
}


class Provider:
    """A provider that lists models."""

    def __init__(self, *models: str) -> None:
        self._models = models

    async def list_models(self) -> list[Any]:
        if not self._models:
            raise ConnectionError("no network")
        return [SimpleNamespace(id=model) for model in self._models]


@pytest.fixture
async def coordinator() -> Any:
    """Return a coordinator with two providers; one of them cannot list its models."""
    coordinator = MockCoordinator()
    await coordinator.mount("providers", Provider("claude-haiku-4", "claude-Haiku-5", "claude-opus-5"), "anthropic")
    await coordinator.mount("providers", Provider(), "openai")
    return coordinator


def test_preferences_survive_a_mapping() -> None:
    """`from_dict` reads what `to_dict` gives, which has no empty config."""
    plain = ProviderPreference("openai", "gpt-5-mini")
    assert plain.to_dict() == {"provider": "openai", "model": "gpt-5-mini"}
    full = ProviderPreference("openai", "gpt-5", {"effort": "low"})
    assert ProviderPreference.from_dict(full.to_dict()) == full


def test_a_preference_needs_a_provider() -> None:
    """A mapping without a provider, or without a model, is refused with its name."""
    with pytest.raises(ValueError, match="ProviderPreference requires 'provider' key"):
        ProviderPreference.from_dict({"model": "gpt-5"})
    with pytest.raises(ValueError, match="ProviderPreference requires 'model' key"):
        ProviderPreference.from_dict({"provider": "openai"})


@pytest.mark.parametrize(("text", "is_pattern"), [("gpt-*", True), ("gpt-?", True), ("gpt-[45]", True), ("gpt", False)])
def test_patterns(text: str, is_pattern: bool) -> None:
    """A star, a question mark and a bracket make a pattern."""
    assert is_glob_pattern(text) is is_pattern


async def test_a_pattern_means_the_last_match(coordinator: Any) -> None:
    """Of the models that match, in any case, the last in alphabetical order counts."""
    found = await resolve_model_pattern("CLAUDE-haiku-*", "anthropic", coordinator)
    assert found.resolved_model == "claude-Haiku-5"
    assert found.matched_models == ["claude-haiku-4", "claude-Haiku-5"]
    assert found.available_models is not None
    assert len(found.available_models) == 3


async def test_a_pattern_without_a_match_means_nothing(coordinator: Any) -> None:
    """No match, no provider, and a provider that cannot list its models all give None; a name is kept as it is."""
    for hint, provider in (("gpt-*", "anthropic"), ("gpt-*", "nowhere"), ("gpt-*", "openai")):
        assert (await resolve_model_pattern(hint, provider, coordinator)).resolved_model is None
    assert (await resolve_model_pattern("gpt-5", "nowhere", coordinator)).resolved_model == "gpt-5"


def test_the_first_fitting_preference_comes_first() -> None:
    """The provider gets priority 0 and the model; the one that was in front goes behind, and nothing is changed."""
    wanted = [ProviderPreference("gemini", "gemini-3"), ProviderPreference("anthropic", "claude-*", {"effort": "low"})]
    plan = apply_provider_preferences(PLAN, wanted)
    assert plan["providers"] == [
        {"module": "provider-openai", "config": {"priority": 1, "api_key": "mine"}},
        {"module": "provider-anthropic", "config": {"priority": 0, "default_model": "claude-*", "effort": "low"}},
    ]
    assert PLAN["providers"][0]["config"]["priority"] == 0


def test_a_preference_changes_no_credentials(caplog: pytest.LogCaptureFixture) -> None:
    """Where requests go, and with whose key, stays as the user set it; a warning names the setting."""
    wanted = [ProviderPreference("openai", "gpt-5", {"api_key": "other", "base_url": "http://x", "temperature": 0})]
    with caplog.at_level(logging.WARNING):
        [openai, _] = apply_provider_preferences(PLAN, wanted)["providers"]
    assert openai["config"] == {"priority": 0, "api_key": "mine", "default_model": "gpt-5", "temperature": 0}
    assert "'api_key' cannot be set by a preference" in caplog.text


async def test_patterns_are_resolved_by_the_providers(coordinator: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A preference whose pattern matches nothing is passed over with a warning."""
    wanted = [{"provider": "openai", "model": "gpt-*"}, {"provider": "provider-anthropic", "model": "claude-opus-*"}]
    with caplog.at_level(logging.WARNING):
        plan = await apply_provider_preferences_with_resolution(PLAN, wanted, coordinator)
    assert plan["providers"][1]["config"] == {"priority": 0, "default_model": "claude-opus-5"}
    assert "no model like 'gpt-*'" in caplog.text


async def test_without_a_fitting_preference_the_plan_stays(coordinator: Any) -> None:
    """When no preference can be fulfilled the plan is the same object."""
    assert apply_provider_preferences(PLAN, [ProviderPreference("gemini", "x")]) is PLAN
    assert await apply_provider_preferences_with_resolution(PLAN, [], coordinator) is PLAN
