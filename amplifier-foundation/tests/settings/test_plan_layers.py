"""Settings files as layers of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_foundation.bundles.explain import origin_of
from amplifier_foundation.paths import Home
from amplifier_foundation.settings.plan import override_origin, settings_layers
from amplifier_foundation.settings.scopes import scope_file
from amplifier_foundation.settings.settings import Settings


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_layers_have_the_shape_of_plans_and_the_lines_of_files(home: Home, project: Path) -> None:
    """A layer has every module under the plan's key, with the line it has in the settings file."""
    path = write(
        home.settings,
        "config:\n  providers:\n    - module: p\n      config:\n        x: 1\nmodules:\n  tools:\n    - module: t\n"
        "      source: git-t\noverrides:\n  h:\n    config:\n      y: 2\n  loop:\n    source: git-loop\n"
        "sources:\n  modules:\n    h: git-h\n",
    )
    plan = {"hooks": [{"module": "h"}], "session": {"orchestrator": "loop"}}
    layers = settings_layers(Settings.load(home, project), plan)
    assert [layer.document.data for layer in layers] == [
        {"hooks": [{"module": "h", "source": "git-h"}]},
        {
            "hooks": [{"module": "h", "config": {"y": 2}}],
            "session": {"orchestrator": {"module": "loop", "source": "git-loop"}},
        },
        {"tools": [{"module": "t", "source": "git-t"}]},
        {"providers": [{"module": "p", "config": {"x": 1}}]},
    ]
    sources, overrides, modules, providers = (layer.document for layer in layers)
    assert sources.where("hooks", 0, "source") == f"{path}:18"
    assert overrides.where("hooks", 0, "config", "y") == f"{path}:13"
    assert overrides.where("session", "orchestrator", "source") == f"{path}:15"
    assert modules.where("tools", 0, "source") == f"{path}:9"
    assert providers.where("providers", 0, "config", "x") == f"{path}:5"
    assert {layer.uri for layer in layers} == {str(path)}


def test_the_kind_of_a_setting_counts_more_than_its_scope(home: Home, project: Path) -> None:
    """Layers are ordered as settings are applied: an override of the project is weaker than the user's provider."""
    write(home.settings, "config: {providers: [{module: p, source: user}]}")
    write(scope_file("project", home, project), "overrides: {p: {source: project}}")
    layers = settings_layers(Settings.load(home, project), {"providers": [{"module": "p"}]})
    assert [layer.document.data["providers"][0]["source"] for layer in layers] == ["project", "user"]


@pytest.mark.parametrize(
    ("scope", "whose"), [("user", "user"), ("project", "project"), ("local", "project"), ("session", "user")]
)
def test_what_lies_in_a_project_is_named_by_the_project(home: Home, project: Path, scope: str, whose: str) -> None:
    """The personal file of a project can come with the project, so it is trusted like the rest of it."""
    session = project.parent / "session"
    write(scope_file(scope, home, project, session), "modules: {tools: [{module: t}]}")  # type: ignore[arg-type]
    (layer,) = settings_layers(Settings.load(home, project, session))
    assert (layer.owner, layer.named_by, layer.bundle) == (whose, whose, f"settings ({scope})")
    assert layer.given_by_user is False


def test_settings_without_modules_make_no_layer(home: Home) -> None:
    """Files that only choose a bundle, or override what the plan does not have, take no part in it."""
    write(home.settings, "bundle: {active: x}\noverrides: {ghost: {source: y}}\nmodules:\nconfig: {providers: }\n")
    assert settings_layers(Settings.load(home), {"tools": [{"module": "t"}]}) == []


@pytest.mark.parametrize("text", ["overrides: {p: {source: evil}}", "sources: {modules: {p: evil}}"])
def test_an_override_is_found_for_an_entry_that_goes_by_an_id(home: Home, project: Path, text: str) -> None:
    """A project cannot hide that it named a source behind the id that a bundle gave to the entry."""
    write(scope_file("project", home, project), text)
    plan = {"providers": [{"module": "p", "id": "one"}, {"module": "p", "id": "two"}, {"module": "p"}]}
    layers = settings_layers(Settings.load(home, project), plan)
    for key in ("one", "two", "p"):
        origin = origin_of(layers, "providers", key)
        assert origin is not None
        assert origin.named_by == "project"


def test_overrides_of_a_provider_that_only_agents_have_are_seen(home: Home, project: Path) -> None:
    """Where an agent sends credentials is shown like where the session does."""
    path = write(scope_file("project", home, project), "overrides:\n  p:\n    config:\n      base_url: evil\n")
    plan = {"agents": {"a": {"providers": [{"module": "p"}]}}}
    (layer,) = settings_layers(Settings.load(home, project), plan)
    assert layer.document.data == {"providers": [{"module": "p", "config": {"base_url": "evil"}}]}
    assert layer.document.where("providers", 0, "config", "base_url") == f"{path}:4"


def test_the_file_that_overrides_a_source_everywhere_is_named(home: Home, project: Path) -> None:
    """`overrides` count more than `sources`, then the stronger scope; a module without overrides has no such file."""
    user = write(home.settings, "overrides:\n  a: {source: x}\nsources:\n  modules:\n    b: y\n")
    shared = write(scope_file("project", home, project), "sources:\n  modules:\n    a: z\n    b: z\n")
    settings = Settings.load(home, project)
    found = {module: override_origin(settings, module) for module in ("a", "b", "c")}
    assert {module: (origin[0].named_by, origin[1]) for module, origin in found.items() if origin} == {
        "a": ("user", f"{user}:2"),
        "b": ("project", f"{shared}:4"),
    }


def test_what_the_program_was_given_is_the_users_word(home: Home, project: Path) -> None:
    """Settings of flags are the strongest of their kind and need no trust."""
    write(scope_file("project", home, project), "config: {providers: [{module: p, source: a}]}")
    given = {"config": {"providers": [{"module": "p", "source": "b"}]}}
    layers = settings_layers(Settings.load(home, project, extra=given))
    assert [(layer.named_by, layer.document.data["providers"][0]["source"]) for layer in layers] == [
        ("project", "a"),
        ("user", "b"),
    ]
    assert layers[-1].bundle == "settings (given)"
