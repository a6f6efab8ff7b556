"""Which models stand for a role: the capability `model_role_resolver`.

    routing:
      matrix: balanced
      overrides:
        fast: {candidates: [{provider: anthropic, model: claude-haiku-*}]}

A matrix is a file `routing/<name>.yaml`, of the user's home or the product, with `roles: {role: {description,
candidates: [{provider, model, config?}]}}`. The roles `general` and `fast` are always there: what no file says of them
is that the session's own model, as it is at that time, is for everything, and that small models of known families are
fast.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home

logger = logging.getLogger(__name__)

#: Always known.
GENERAL: Final = "general"
FAST: Final = "fast"
#: Small models of providers, the first that a plan has counts.
_SMALL: Final = (
    ("anthropic", "claude-haiku-*"),
    ("openai", "gpt-*-mini"),
    ("azure-openai", "gpt-*-mini"),
    ("gemini", "gemini-*-flash*"),
    ("github-copilot", "*mini*"),
)

Candidate = dict[str, Any]

#: Stands for what the session itself answers with.
_OWN: Final[Candidate] = {}


class RoutingError(FoundationError):
    """The settings `routing`, or the file they name, cannot be used."""

    code = "routing_invalid"


class ModelRoles:
    """Say which models stand for a role; settings are read when the first role is asked for.

    What cannot be read is told once, in the log of the program and in `problem`, and counts as nothing said: a role
    is a wish.
    """

    def __init__(self, home: Home, project: Path | None, own: Callable[[], Candidate | None] = lambda: None) -> None:
        """Look at the settings of a home and a project; `own` tells what a session answers with at that time."""
        self._home, self._project, self._own = home, project, own
        self._roles: dict[str, list[Candidate]] | None = None
        #: Why the settings say nothing, None while they do.
        self.problem: str | None = None

    @property
    def known_roles(self) -> tuple[str, ...]:
        """Return the names of all roles."""
        return tuple(self._known())

    def resolve(self, role: str) -> list[Candidate]:
        """Return what may stand for a role as `{provider, model, config?}`, the best first; nothing for an unknown one.

        Models may be patterns.
        """
        known = (self._own() if candidate is _OWN else candidate for candidate in self._known().get(role, ()))
        return [dict(candidate) for candidate in known if candidate is not None]

    def _known(self) -> dict[str, list[Candidate]]:
        if self._roles is None:
            try:
                said = load_roles(self._home, self._project)
            except (FoundationError, OSError) as error:
                self.problem = str(error)
                logger.warning("Models for roles are not known: %s", error)
                said = {}
            small = [{"provider": provider, "model": model} for provider, model in _SMALL]
            self._roles = {GENERAL: [_OWN], FAST: [*small, _OWN], **said}
        return self._roles


def load_roles(home: Home, project: Path | None) -> dict[str, list[Candidate]]:
    """Return what settings say of roles; raises RoutingError with file and line, and SettingsError."""
    from amplifier_foundation.settings import Settings

    said = Settings.load(home, project).get("routing")
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        raise RoutingError(f"routing: must be a mapping with 'matrix' or 'overrides', got {said!r}")
    roles: dict[str, list[Candidate]] = {}
    if said.get("matrix") is not None:
        roles |= _matrix(home, said["matrix"])
    overrides = said.get("overrides")
    if overrides is not None and not isinstance(overrides, Mapping):
        raise RoutingError(f"routing.overrides: must be a mapping of roles, got {overrides!r}")
    for role, value in (overrides or {}).items():
        roles[str(role)] = _candidates(value, f"routing.overrides.{role}")
    return roles


def _matrix(home: Home, name: Any) -> dict[str, list[Candidate]]:
    from amplifier_foundation.documents import read_document

    if not isinstance(name, str) or "/" in name or name.startswith("."):
        raise RoutingError(f"routing.matrix: must be the name of a file in {home.path / 'routing'}, got {name!r}")
    path = home.path / "routing" / f"{name}.yaml"
    if not path.is_file():
        there = sorted(file.stem for file in path.parent.glob("*.yaml")) if path.parent.is_dir() else []
        known = f"known: {', '.join(there)}" if there else "there is none"
        raise RoutingError(f"routing.matrix: there is no {path} ({known})")
    document = read_document(path)
    roles = document.data.get("roles")
    if not isinstance(roles, Mapping):
        raise RoutingError(f"{document.where('roles')}: 'roles' must be a mapping of roles, got {roles!r}")
    return {
        str(role): _candidates(value, f"{document.where('roles', role)}: role {str(role)!r}")
        for role, value in roles.items()
    }


def _candidates(value: Any, where: str) -> list[Candidate]:
    listed = value.get("candidates") if isinstance(value, Mapping) and "candidates" in value else value
    listed = [listed] if isinstance(listed, Mapping) else listed
    if not isinstance(listed, list):
        raise RoutingError(f"{where}: must have 'candidates', a list of {{provider, model}}, got {value!r}")
    for candidate in listed:
        if not isinstance(candidate, Mapping) or not isinstance(candidate.get("provider"), str):
            raise RoutingError(f"{where}: each candidate needs a 'provider', got {candidate!r}")
        if candidate.get("model") is not None and not isinstance(candidate["model"], str):
            raise RoutingError(f"{where}: 'model' must be a text, got {candidate['model']!r}")
    return [
        {key: candidate[key] for key in ("provider", "model", "config") if key in candidate} for candidate in listed
    ]
