"""The scopes of settings and their files, dotted keys, and paths that settings name.

Scopes, the weakest first: `user` (~/.amplifier/settings.yaml), `project` (.amplifier/settings.yaml), `local` (what the
user sets for a project, .amplifier/settings.local.yaml), `session` (settings.yaml in the folder of a session).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.merge import ANY, SETTINGS, Keys, is_at, module_key
from amplifier_foundation.paths import Home

Scope = Literal["user", "project", "local", "session"]
#: `bundle.active`, or its parts when a name has a dot in it: `("bundle", "added", "my.bundle")`.
Key = str | Sequence[str]

#: Later ones win.
SCOPES: Final[tuple[Scope, ...]] = ("user", "project", "local", "session")
_ALIASES: Final[dict[str, Scope]] = {"global": "user"}
#: The folder of a project for files of this program.
PROJECT_FOLDER: Final = ".amplifier"


class SettingsError(FoundationError):
    """A settings file cannot be read, understood or written; the text starts with the file, and its line if known.

    No text ever holds a secret.
    """

    code: ClassVar[str] = "settings_invalid"


class SettingRefusedError(SettingsError):
    """A setting was not written: an unknown key, or a value of the wrong kind; the text starts with the key."""

    code = "setting_refused"


class SettingNotFoundError(SettingsError):
    """Something is not set that is to be read or removed."""

    code = "setting_not_found"


def parse_scope(text: str) -> Scope:
    """Return the scope called `text`; raises SettingsError with a hint for an unknown one."""
    named: dict[str, Scope] = {scope: scope for scope in SCOPES} | _ALIASES
    if text not in named:
        raise SettingsError(f"unknown settings scope {text!r}: {did_you_mean(text, list(named))}")
    return named[text]


def scope_file(
    scope: Scope | Literal["global"], home: Home, project: Path | None = None, session_folder: Path | None = None
) -> Path:
    """Return the settings file of a scope, which may be missing; raises SettingsError when the scope has no folder."""
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


# -- dotted keys, in which the entries of a module list go by `id`, else `module` --


def parts_of(key: Key) -> Keys:
    """Return the names that a key consists of; raises SettingsError when one is empty."""
    parts = tuple(key.split(".")) if isinstance(key, str) else tuple(key)
    if not parts or not all(isinstance(part, str) and part for part in parts):
        raise SettingsError(f"invalid settings key {key!r}: write names with dots between them, like bundle.active")
    return parts


def is_module_list(at: Sequence[str]) -> bool:
    """Return whether the list at this key holds modules."""
    return is_at(at, SETTINGS.modules)


def is_united(at: Sequence[str]) -> bool:
    """Return whether the lists of all scopes at this key are joined."""
    return tuple(at) in SETTINGS.united


def position(entries: Any, name: str) -> int | None:
    """Return the index of the module called `name` in a module list, None when it is missing."""
    if not isinstance(entries, list):
        return None
    return next((index for index, entry in enumerate(entries) if module_key(entry) == name), None)


def find(data: Any, parts: Keys) -> Any:
    """Return the value at a key, None when it is not set."""
    value = data
    for depth, part in enumerate(parts):
        if is_module_list(parts[:depth]):
            index = position(value, part)
            value = None if index is None else value[index]
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            return None
    return value


def leaves(data: Mapping[str, Any]) -> Iterator[tuple[Keys, tuple[str | int, ...], Any]]:
    """Yield every value that is not a mapping with keys in it: its key, the keys to it in the file, and itself."""
    yield from _leaves(data, (), ())


def _leaves(value: Any, at: Keys, keys: tuple[str | int, ...]) -> Iterator[tuple[Keys, tuple[str | int, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, (*at, str(key)), (*keys, key))
    elif isinstance(value, list) and value and is_module_list(at):
        for index, entry in enumerate(value):
            yield from _leaves(entry, (*at, module_key(entry) or str(index)), (*keys, index))
    elif at:
        yield at, keys, value


# -- paths --

#: Keys whose texts may be paths.
_PATHS: Final = (
    ("bundle", "active"),
    ("bundle", "app", ANY),
    ("bundle", "added", ANY),
    ("sources", ANY, ANY),
    ("overrides", ANY, "source"),
    ("config", "providers", ANY, "source"),
    ("modules", ANY, ANY, "source"),
)


def anchored(data: Mapping[str, Any], file: Path, project: Path | None) -> dict[str, Any]:
    """Return a copy of checked settings in which `./` and `../` are absolute.

    They are looked for beside the settings file, then, for files of a project, in the project's own folder; a missing
    one is anchored to the project. A path in the user's settings never leads into the project that the program runs in.
    """
    folders = [file.parent, *([project] if project is not None else [])]
    fresh: dict[str, Any] = _anchored(data, (), folders)
    return fresh


def _anchored(value: Any, at: Keys, folders: list[Path]) -> Any:
    if isinstance(value, Mapping):
        return {key: _anchored(item, (*at, str(key)), folders) for key, item in value.items()}
    if isinstance(value, list):
        return [_anchored(item, (*at, ANY), folders) for item in value]
    if isinstance(value, str) and value.startswith(("./", "../")) and is_at(at, _PATHS):
        found = [folder / value for folder in folders]
        return str(next((path for path in found if path.exists()), found[-1]).resolve())
    return value
