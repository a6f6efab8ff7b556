"""Know the scopes of settings, weakest first: the user's, the project's, the user's for a project, one session's."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.paths import Home
from amplifier_foundation.settings.errors import SettingsError

Scope = Literal["user", "project", "local", "session"]

#: Later ones win.
SCOPES: Final[tuple[Scope, ...]] = ("user", "project", "local", "session")
#: Other names that are understood.
_ALIASES: Final[dict[str, Scope]] = {"global": "user"}
#: Where a project keeps what is for this program.
PROJECT_FOLDER: Final = ".amplifier"


def parse_scope(text: str) -> Scope:
    """Return the scope that is called `text`; raises SettingsError with a hint for one there is not."""
    named: dict[str, Scope] = {scope: scope for scope in SCOPES} | _ALIASES
    if text not in named:
        raise SettingsError(f"there is no settings scope {text!r}: {did_you_mean(text, list(named))}")
    return named[text]


def scope_file(
    scope: Scope | Literal["global"], home: Home, project: Path | None = None, session_folder: Path | None = None
) -> Path:
    """Return the settings file of a scope, which need not exist; raises SettingsError when the scope has no place."""
    name = parse_scope(scope)
    if name == "user":
        return home.settings
    if name == "session":
        if session_folder is None:
            raise SettingsError("settings of a session need a session: start or resume one, or choose another scope")
        return session_folder / "settings.yaml"
    if project is None:
        raise SettingsError(f"settings of the scope {name!r} need a project: go to its folder, or choose another scope")
    return project / PROJECT_FOLDER / ("settings.local.yaml" if name == "local" else "settings.yaml")
