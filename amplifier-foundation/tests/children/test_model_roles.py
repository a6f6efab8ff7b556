"""Which models stand for a role."""

import logging
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.children.model_roles import ModelRoles, RoutingError, load_roles
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_kit.engine.routing.preference import ProviderPreference

MATRIX = """\
name: balanced
description: For every day.
roles:
  general: {description: Everything., candidates: [{provider: anthropic, model: claude-opus-*}]}
  fast: {description: Small things., candidates: [{provider: openai, model: gpt-*-mini, config: {effort: low}}]}
"""


def _home(tmp_path: Path, settings: str = "", **matrices: str) -> Home:
    (tmp_path / "routing").mkdir()
    (tmp_path / "settings.yaml").write_text(settings, encoding="utf-8")
    for name, text in matrices.items():
        (tmp_path / "routing" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return Home(tmp_path)


def test_general_and_fast_are_always_known(tmp_path: Path) -> None:
    """Without settings the session's own model is for everything, and small models of known families are fast."""
    roles = ModelRoles(_home(tmp_path), None, lambda: {"provider": "mock", "model": "m"})
    assert roles.known_roles == ("general", "fast")
    assert roles.candidates("general") == [{"provider": "mock", "model": "m"}]
    assert roles.candidates("fast")[0] == {"provider": "anthropic", "model": "claude-haiku-*"}
    assert roles.candidates("fast")[-1] == {"provider": "mock", "model": "m"}
    assert roles.candidates("unheard of") == []


def test_a_matrix_says_what_roles_are_and_overrides_say_more(tmp_path: Path) -> None:
    """Candidates come in the order of the file, with their settings; an override takes the place of a role."""
    settings = "routing: {matrix: balanced, overrides: {critic: {candidates: [{provider: gemini}]}, general: []}}"
    roles = ModelRoles(_home(tmp_path, settings, balanced=MATRIX), None)
    assert set(roles.known_roles) == {"general", "fast", "critic"}
    assert roles.candidates("fast") == [{"provider": "openai", "model": "gpt-*-mini", "config": {"effort": "low"}}]
    assert roles.candidates("critic") == [{"provider": "gemini"}]
    assert roles.candidates("general") == []


def test_the_shipped_matrices_are_found_by_name(tmp_path: Path) -> None:
    """A matrix that the user has not written is the one that comes with the product."""
    roles = ModelRoles(_home(tmp_path, "routing: {matrix: economy}"), None)
    assert {"general", "fast", "coding", "critical-ops"} <= set(roles.known_roles)
    assert roles.candidates("coding")[0] == {"provider": "anthropic", "model": "claude-haiku-*"}


def test_what_a_caller_changes_is_its_own(tmp_path: Path) -> None:
    """Every answer is a copy."""
    roles = ModelRoles(_home(tmp_path), None, lambda: {"provider": "mock"})
    roles.candidates("general")[0]["provider"] = "other"
    assert roles.candidates("general") == [{"provider": "mock"}]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("routing: [x]", "routing"),
        ("routing: {matrix: gone}", r"Matrix 'gone' not found. Available: anthropic, balanced, copilot, "),
        ("routing: {matrix: ../x}", "matrix"),
        ("routing: {matrix: 3}", "matrix"),
        ("routing: {overrides: [x]}", "overrides"),
        ("routing: {overrides: {fast: 3}}", "overrides.fast"),
        ("routing: {overrides: {fast: [{model: x}]}}", "provider"),
        ("routing: {overrides: {fast: [{provider: x, model: 3}]}}", "model"),
        ("routing: {matrix: broken}", "broken.yaml:1"),
    ],
)
def test_settings_that_make_no_sense_are_told_with_their_place(tmp_path: Path, settings: str, said: str) -> None:
    """The error names the key or the file and line."""
    home = _home(tmp_path, settings, balanced=MATRIX)
    if "broken" in settings:
        (tmp_path / "routing" / "balanced.yaml").rename(tmp_path / "routing" / "broken.yaml")
        (tmp_path / "routing" / "broken.yaml").write_text("roles: [x]", encoding="utf-8")
    with pytest.raises(RoutingError, match=said):
        load_roles(home, None)


def test_a_broken_file_costs_no_session(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A role is a wish: it is said once that it cannot be looked up, and the roles that are always there remain."""
    roles = ModelRoles(_home(tmp_path, "routing: {matrix: gone}"), None, lambda: {"provider": "mock"})
    with caplog.at_level(logging.WARNING):
        assert roles.candidates("general") == roles.candidates("general") == [{"provider": "mock"}]
    assert len(caplog.records) == 1
    assert roles.problem is not None
    assert "gone" in roles.problem


async def test_every_session_has_the_capability(tmp_path: Path) -> None:
    """Modules find it under its published name; the session's own model is what stands for everything."""
    plan: dict[str, Any] = {
        "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
        "providers": [{"module": "provider-mock", "config": {"default_model": "m"}}],
    }
    async with SessionRuntime(
        Prepared.from_plan(plan, tmp_path / "home", tmp_path), environ={}, spawner=Spawner()
    ) as runtime:
        resolver = runtime.session.coordinator.get_capability("model_role_resolver")
        assert resolver.known_roles == ("general", "fast")
        assert await resolver.resolve("general") == [ProviderPreference("mock", "m")]
        assert await resolver.resolve(["unheard of", "fast"]) == [ProviderPreference("mock", "m")]
        assert await resolver.resolve("unheard of") == await resolver.resolve([]) == []
