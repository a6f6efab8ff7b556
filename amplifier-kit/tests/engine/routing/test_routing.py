"""Matrices are read with their faults, and the resolver picks a model that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.testing import MockCoordinator
from amplifier_kit.engine.routing.matrix import MatrixError, Role, find_matrices, load_matrix, with_overrides
from amplifier_kit.engine.routing.preference import ProviderPreference, preference_of
from amplifier_kit.engine.routing.resolver import RoleResolver, best_model, mounted_as, preferences_for

SHIPPED = ("anthropic", "balanced", "copilot", "economy", "gemini", "ollama", "openai", "quality")
ROLES = {
    "general", "fast", "coding", "ui-coding", "security-audit", "reasoning", "critique", "creative", "writing",
    "research", "vision", "image-gen", "critical-ops",
}  # fmt: skip


class Provider:
    """Has models, or fails to list them."""

    def __init__(self, *models: str) -> None:
        self._models = models

    async def list_models(self) -> list[str]:
        if not self._models:
            raise ConnectionError("no server")
        return list(self._models)


def _coordinator(**providers: Provider) -> Any:
    coordinator: Any = MockCoordinator()
    coordinator.get("providers").update(providers)
    return coordinator


def _resolver(coordinator: Any, **roles: list[dict[str, Any]]) -> RoleResolver:
    return RoleResolver(coordinator, lambda: roles, lambda role: roles.get(role, []))


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_matrices_are_whole(name: str) -> None:
    """Each has every role that its provider can fill, a description, and two roles that must be there."""
    matrix = load_matrix(name)
    missing = ROLES - matrix.roles.keys()
    assert missing <= {"image-gen"}
    assert matrix.description
    assert all(role.description and role.candidates for role in matrix.roles.values())
    assert matrix.roles["fast"].candidates != matrix.roles["critique"].candidates
    if name not in ("economy", "ollama"):
        assert {each["config"]["reasoning_effort"] for each in matrix.roles["critique"].candidates} == {"xhigh"}
        assert {each["config"]["reasoning_effort"] for each in matrix.roles["reasoning"].candidates} == {"high"}
    if name in ("anthropic", "gemini", "ollama"):
        assert {each["provider"] for role in matrix.roles.values() for each in role.candidates} == {name}


def test_folders_come_before_the_shipped_matrices(tmp_path: Path) -> None:
    """A matrix of the user takes the place of a shipped one, and others are added."""
    text = "roles: {general: [{provider: a}], fast: [{provider: b}]}"
    for name in ("balanced", "mine"):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    assert set(find_matrices([tmp_path])) == {*SHIPPED, "mine"}
    assert load_matrix("balanced", [tmp_path]).roles["fast"].candidates == ({"provider": "b"},)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: x\nroles: [x]", ":2: 'roles' must be a mapping"),
        ("roles:\n  general: [{provider: a}]", ":1: a matrix needs the role 'fast'"),
        ("roles:\n  fast: []\n  general: 3", ":3: role 'general': must have 'candidates'"),
        ("roles:\n  general: [{model: a}]", ":2: role 'general': each candidate needs a 'provider'"),
        ("roles:\n  general: [base]", ":2: role 'general': each candidate needs a 'provider', got 'base'"),
        ("roles: {\n  general: [", ":3: malformed YAML"),
        ("[]", ":1: a matrix must be a mapping"),
    ],
)
def test_a_wrong_matrix_is_told_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    """The error has file and line."""
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(MatrixError) as raised:
        load_matrix("mine", [tmp_path])
    assert f"{file}{expected}" in str(raised.value)


def test_an_unknown_matrix_names_the_others() -> None:
    """The message lists what there is."""
    with pytest.raises(MatrixError) as raised:
        load_matrix("gone")
    assert str(raised.value) == f"Matrix 'gone' not found. Available: {', '.join(SHIPPED)}"


def test_base_stands_for_the_candidates_of_the_matrix() -> None:
    """An override takes the place of a role, and may hold what was there once."""
    roles = {"fast": Role("Errands", ({"provider": "a"},)), "other": Role("", ())}
    merged = with_overrides(roles, {"fast": [{"provider": "b"}, "base"], "new": {"candidates": []}}, "routing")
    assert merged["fast"] == Role("Errands", ({"provider": "b"}, {"provider": "a"}))
    assert merged["new"].candidates == ()
    with pytest.raises(MatrixError, match=r"routing\.fast: 'base' may be there once"):
        with_overrides(roles, {"fast": ["base", "base"]}, "routing")


@pytest.mark.parametrize(
    ("pattern", "models", "expected"),
    [
        ("claude-haiku-*", ["claude-haiku-4-5-20251001", "claude-haiku-3-5-20260101"], "claude-haiku-4-5-20251001"),
        ("claude-opus-*", ["claude-opus-4-9", "claude-opus-4-10"], "claude-opus-4-10"),
        ("gpt-[0-9]*", ["gpt-5.5-mini", "gpt-5.5", "gpt-5.1"], "gpt-5.5"),
        ("GPT-*-mini", ["gpt-5-mini", "gpt-4.1-mini"], "gpt-5-mini"),
        ("gemini-*-pro*", ["gemini-2.5-pro", "gemini-3-pro-preview"], "gemini-3-pro-preview"),
        ("x-*", ["y-1"], None),
    ],
)
def test_the_newest_model_of_a_pattern(pattern: str, models: list[str], expected: str | None) -> None:
    """Numbers count as numbers, dates do not, and of equal ones the shortest name wins."""
    assert best_model(pattern, models) == expected
    assert best_model(pattern, list(reversed(models))) == expected


@given(st.lists(st.from_regex(r"[a-z]{1,5}-[0-9]{1,3}(-[a-z]{1,4})?", fullmatch=True), min_size=1))
def test_the_order_of_the_list_does_not_matter(models: list[str]) -> None:
    """Whatever order a provider lists its models in, the same one is picked."""
    assert best_model("*", models) == best_model("*", sorted(models)) in models


async def test_the_first_candidate_that_is_there_fills_a_role() -> None:
    """Providers that are missing, cannot list their models, or have no such model are passed over."""
    coordinator = _coordinator(broken=Provider(), openai=Provider("gpt-5", "gpt-5-mini"))
    candidates: list[dict[str, Any]] = [
        {"provider": "anthropic", "model": "claude-*"},
        {"provider": "broken", "model": "x-*"},
        {"provider": "openai", "model": "o9-*"},
        {"provider": "openai", "model": "gpt-*-mini", "config": {"reasoning_effort": "low"}},
    ]
    resolver = _resolver(coordinator, fast=candidates, none=candidates[:3])
    expected = [ProviderPreference("openai", "gpt-5-mini", {"reasoning_effort": "low"})]
    assert await resolver.resolve("fast") == expected
    assert await resolver.resolve(["unknown", "none", "fast"]) == expected
    assert await resolver.resolve("none") == []
    assert resolver.known_roles == ("fast", "none")


async def test_a_candidate_without_a_model_means_the_providers_own() -> None:
    """The role is filled, with no preference, so that no later role counts."""
    resolver = _resolver(
        _coordinator(a=Provider("m")), first=[{"provider": "a"}], second=[{"provider": "a", "model": "m"}]
    )
    assert await resolver.resolve(["first", "second"]) == []


def test_a_provider_is_found_under_the_name_it_is_mounted_as() -> None:
    """Its name, its module, and the id of an instance lead to it."""
    coordinator = _coordinator(work=Provider("m"), openai=Provider("m"))
    coordinator.config["providers"] = [{"module": "provider-anthropic", "id": "work"}]
    assert mounted_as(coordinator, "openai") == mounted_as(coordinator, "provider-openai") == "openai"
    assert mounted_as(coordinator, "anthropic") == mounted_as(coordinator, "work") == "work"
    assert mounted_as(coordinator, "gemini") is None


async def test_answers_of_any_resolver_are_read() -> None:
    """Mappings and objects count, sync and async; others are left out."""

    class Plain:
        def resolve(self, role: Any) -> list[Any]:
            return [
                {"provider": "a", "model": "m"},
                ProviderPreference("b", "n", {"x": 1}),
                {"provider": "c"},
                {"model": "m"},
                3,
            ]

    coordinator = _coordinator()
    assert await preferences_for(coordinator, "fast") == []
    coordinator.register_capability("model_role_resolver", Plain())
    found = await preferences_for(coordinator, "fast")
    assert found == [
        ProviderPreference("a", "m"),
        ProviderPreference("b", "n", {"x": 1}),
        ProviderPreference("c", ""),
    ]
    assert preference_of(found[1]) == found[1]
