"""The places of settings files."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.settings.scopes import SCOPES, SettingsError, parse_scope, scope_file


def test_every_scope_has_its_file(home: Home, project: Path, tmp_path: Path) -> None:
    """The files are where they have always been."""
    session = tmp_path / "session"
    assert [scope_file(scope, home, project, session) for scope in SCOPES] == [
        home.path / "settings.yaml",
        project / ".amplifier" / "settings.yaml",
        project / ".amplifier" / "settings.local.yaml",
        session / "settings.yaml",
    ]


def test_global_is_another_name_for_user(home: Home) -> None:
    """The published name of the user's scope is understood."""
    assert parse_scope("global") == "user"
    assert scope_file("global", home) == home.settings


def test_an_unknown_scope_is_an_error_with_a_hint() -> None:
    """A slip of the pen is answered with the name that was meant."""
    with pytest.raises(SettingsError, match=r"'projet'.*did you mean 'project'"):
        parse_scope("projet")


@pytest.mark.parametrize(("scope", "needed"), [("project", "project"), ("local", "project"), ("session", "session")])
def test_a_scope_without_a_place_says_what_it_needs(scope: str, needed: str, home: Home) -> None:
    """Project and session settings have no file without a project or session."""
    with pytest.raises(SettingsError, match=f"need a {needed}"):
        scope_file(parse_scope(scope), home)
