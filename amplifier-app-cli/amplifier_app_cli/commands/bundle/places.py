"""Say where a key of the settings is set, and how a path is to be written there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_app_cli.scope_options import ScopeChoice
    from amplifier_foundation.settings import Scope


class Place(NamedTuple):
    """Where a key is set."""

    scope: Scope
    value: Any
    #: `file:line`.
    where: str


def places_of(app: App, *parts: str) -> list[Place]:
    """Return where a key is set, the weakest scope first; entries of module lists go by their name."""
    from amplifier_foundation.settings.scopes import find

    found = []
    for scope, document in app.settings.documents:
        value = find(document.data, parts)
        if value is not None:
            found.append(Place(scope, value, document.where(*_keys_in(document.data, parts))))
    return found


def elsewhere(app: App, *parts: str) -> str:
    """Return, for a message about a key that one scope does not have, which scopes have it."""
    listed = ", ".join(f"{place.where} (add --scope {place.scope})" for place in places_of(app, *parts))
    return f": it is set in {listed}" if listed else ""


def overruled(app: App, choice: ScopeChoice, *parts: str) -> str | None:
    """Return where a stronger scope sets the same key, None when none does."""
    from amplifier_foundation.settings.scopes import SCOPES

    own = SCOPES.index(choice.scope or "user")
    stronger = [place for place in places_of(app, *parts) if SCOPES.index(place.scope) > own]
    return stronger[-1].where if stronger else None


def written_path(app: App, choice: ScopeChoice, text: str) -> str:
    """Return a path as it is to stand in the settings of a scope, where it means the same from everywhere.

    In a project's files it is relative to the project when it lies there, else absolute.
    """
    if text.startswith("~/"):
        return text
    real = (app.project / text).resolve()
    if choice.scope in ("project", "local") and real.is_relative_to(app.project):
        relative = real.relative_to(app.project)
        # Beside the settings file is looked first.
        if not (app.project / ".amplifier" / relative).exists():
            return f"./{relative.as_posix()}"
    return str(real)


def _keys_in(data: Any, parts: tuple[str, ...]) -> Iterator[str | int]:
    """Yield the keys in the file that lead to a place; the only lists on the way hold modules."""
    from amplifier_foundation.settings.scopes import position

    value = data
    for part in parts:
        if isinstance(value, list):
            index = position(value, part)
            if index is None:
                return
            yield index
            value = value[index]
        else:
            yield part
            value = value.get(part) if isinstance(value, dict) else None
