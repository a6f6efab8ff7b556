"""Relative paths in settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.settings.scopes import scope_file
from amplifier_foundation.settings.settings import Settings

PLACES = {
    "bundle.active": "bundle: {active: PATH}",
    "bundle.app": "bundle: {app: [PATH]}",
    "bundle.added.x": "bundle: {added: {x: PATH}}",
    "sources.modules.m": "sources: {modules: {m: PATH}}",
    "sources.bundles.b": "sources: {bundles: {b: PATH}}",
    "overrides.m.source": "overrides: {m: {source: PATH}}",
    "config.providers.p.source": "config: {providers: [{module: p, source: PATH}]}",
    "modules.tools.t.source": "modules: {tools: [{module: t, source: PATH}]}",
}


def load(path: Path, home: Home, project: Path, text: str) -> Settings:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return Settings.load(home, project)


@pytest.mark.parametrize("key", PLACES)
def test_a_path_of_the_users_never_leads_into_the_project(home: Home, project: Path, key: str) -> None:
    """`./x` in the user's settings is in the user's home, even when the project has an `x` and the home has none."""
    (project / "x").mkdir()
    value = load(home.settings, home, project, PLACES[key].replace("PATH", "./x")).get(key)
    assert value in (str(home.path / "x"), [str(home.path / "x")])


@pytest.mark.parametrize("scope", ["project", "local"])
def test_a_path_of_a_project_is_beside_the_file_else_in_the_project(home: Home, project: Path, scope: str) -> None:
    """`./x` is `.amplifier/x` when that is there, else `x` in the project, found or not."""
    path = scope_file(scope, home, project)  # type: ignore[arg-type]
    text = "overrides: {m: {source: ./x}}"
    assert load(path, home, project, text).get("overrides.m.source") == str(project / "x")
    (project / ".amplifier" / "x").mkdir()
    assert Settings.load(home, project).get("overrides.m.source") == str(project / ".amplifier" / "x")
    (document,) = (document for _, document in Settings.load(home, project).documents)
    assert document.data["overrides"]["m"]["source"] == str(project / ".amplifier" / "x")


@pytest.mark.parametrize("value", ["name", "git+https://example.com/x", "/abs/x", "~/x", ".x", "x/./y"])
def test_what_is_not_relative_by_its_first_characters_stays(home: Home, project: Path, value: str) -> None:
    """Names and addresses are left alone."""
    assert load(home.settings, home, project, f"bundle: {{active: {value}}}").get("bundle.active") == value


def test_config_of_modules_is_left_alone(home: Home, project: Path) -> None:
    """What a path means in a module's own config, the module says."""
    text = "overrides: {m: {config: {source: ./x, paths: [./y]}}}"
    assert load(home.settings, home, project, text).get("overrides.m.config") == {"source": "./x", "paths": ["./y"]}
