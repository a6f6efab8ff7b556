"""Edit the settings file of a scope: comments and order stay, two writers lose nothing, secrets go to the key store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.merge import Keys
from amplifier_foundation.settings.checks import check_settings
from amplifier_foundation.settings.keys import KeyStore
from amplifier_foundation.settings.scopes import (
    Key,
    SettingRefusedError,
    SettingsError,
    find,
    is_module_list,
    parts_of,
    position,
)
from amplifier_foundation.settings.secrets import clear_secrets, variable_name
from amplifier_foundation.yaml_edit import Draft, edit_file
from amplifier_kit.named_tuple import NamedTuple

#: Settings in which variables are expanded, so that a secret can be referred to.
_EXPANDED = (("config", "providers"), ("modules",), ("overrides",))
_ADVICE: Final = "check who owns the folder, or choose another scope or another AMPLIFIER_HOME"
_PLAIN = (str, int, float, bool, type(None))


class Moved(NamedTuple):
    """A secret that was moved to the key store."""

    #: The dotted key that it was meant for.
    key: str
    #: The variable that the file has there now.
    variable: str


class Edit(NamedTuple):
    """The outcome of an edit."""

    path: Path
    changed: bool
    #: Secrets that were given, or found in the file, and moved to the key store.
    moved: tuple[Moved, ...] = ()


def set_value(path: Path, key: Key, value: Any, keys: KeyStore) -> Edit:
    """Set one key in the file of a scope, which is created if it is missing.

    Entries of module lists go by `id`, else `module`: `config.providers.provider-openai.config.priority`; a missing
    one is added. A secret in clear goes to `keys`, and `${VAR}` into the file. The file stays as it is when this raises
    SettingRefusedError for an unknown key or a wrong value, or SettingsError when it is broken or cannot be written.
    """
    value = _plain(key, value)
    _check_given(parts_of(key), value)

    def change(draft: Draft) -> None:
        place, rest = _place(draft.data, parts_of(key))
        draft.set(place, _filled(rest, value))

    return _edit(path, change, keys)


def unset_value(path: Path, key: Key, keys: KeyStore) -> Edit:
    """Remove one key from the file of a scope; `changed` says whether it was set. Raises SettingsError."""

    def change(draft: Draft) -> None:
        place, rest = _place(draft.data, parts_of(key))
        if not rest and _has(draft.data, place):
            draft.unset(place)

    return _edit(path, change, keys, is_removal=True)


def append_value(path: Path, key: Key, value: Any, keys: KeyStore) -> Edit:
    """Append an item to the list at a key unless it has it already; raises SettingsError as `set_value` does."""
    value = _plain(key, value)

    def change(draft: Draft) -> None:
        parts = parts_of(key)
        items = find(draft.data, parts)
        if items is not None and not isinstance(items, list):
            raise SettingsError(f"{path}: `{'.'.join(parts)}` is not a list: nothing can be added to it")
        if value in (items or []):
            return
        place, rest = _place(draft.data, parts)
        draft.set(*((place, _filled(rest, [value])) if not items else ((*place, len(items)), value)))

    return _edit(path, change, keys)


def remove_item(path: Path, key: Key, value: Any, keys: KeyStore) -> Edit:
    """Remove an item from the list at a key; `changed` says whether it was there. Raises SettingsError."""

    def change(draft: Draft) -> None:
        items = find(draft.data, parts_of(key))
        if isinstance(items, list) and value in items:
            place, _ = _place(draft.data, parts_of(key))
            draft.unset((*place, items.index(value)))

    return _edit(path, change, keys, is_removal=True)


def _edit(path: Path, change: Callable[[Draft], None], keys: KeyStore, *, is_removal: bool = False) -> Edit:
    if is_removal and not path.exists():
        return Edit(path, changed=False)
    moved: tuple[Moved, ...] = ()
    with edit_file(path, SettingsError, _ADVICE) as draft:
        text, before = draft.text, draft.data
        change(draft)
        document = draft.document
        check_settings(document.data, document.where)
        is_changed = draft.text != text
        if is_changed:
            moved = _move_secrets(draft, keys, before)
    return Edit(path, is_changed, moved)


def _move_secrets(draft: Draft, keys: KeyStore, before: dict[str, Any]) -> tuple[Moved, ...]:
    """Replace secrets with variables; the key store has them before the file loses them.

    Raises SettingsError for a new one that a variable cannot replace; one that the file had before stays there.
    """
    moved: list[Moved] = []
    old = list(clear_secrets(before))
    for secret in list(clear_secrets(draft.data)):
        key = ".".join(secret.parts)
        variable = variable_name(secret.parts)
        if not secret.is_whole or not any(secret.parts[: len(place)] == place for place in _EXPANDED):
            if secret in old:
                continue
            raise SettingsError(
                f"{draft.path}: `{key}` would hold a secret in clear: keep it as a key, for example {variable}, and "
                f"write ${{{variable}}} in its place"
            )
        value = _at(draft.data, secret.keys)
        variable = keys.set_new(variable, str(value))
        draft.set(secret.keys, f"${{{variable}}}")
        moved.append(Moved(key, variable))
    return tuple(moved)


def _place(data: Any, parts: Keys) -> tuple[tuple[str | int, ...], Keys]:
    """Return the keys in the file that lead to a value, and the rest for which a module entry must be added."""
    place: list[str | int] = []
    value = data
    for depth, part in enumerate(parts):
        if is_module_list(parts[:depth]):
            index = position(value, part)
            if index is None:
                return (*place, len(value) if isinstance(value, list) else 0), parts[depth:]
            place.append(index)
            value = value[index]
        else:
            place.append(part)
            value = value.get(part) if isinstance(value, Mapping) else None
    return tuple(place), ()


def _filled(rest: Keys, value: Any) -> Any:
    """Return the value, or a new module entry around it."""
    if not rest:
        return value
    name, *inner = rest
    if not inner:
        return {"module": name, **value} if isinstance(value, dict) else value
    for part in reversed(inner):
        value = {part: value}
    return {"module": name, **value}


def _check_given(parts: Keys, value: Any) -> None:
    """Raise SettingRefusedError, with the key as it was given, for an unknown key or a value of the wrong kind."""
    place, rest = _place({}, parts)
    data: Any = _filled(rest, value)
    for key in reversed(place):
        data = [data] if isinstance(key, int) else {key: data}
    try:
        check_settings(data, lambda *keys: ".".join(map(str, parts)))
    except SettingsError as error:
        raise SettingRefusedError(str(error)) from error


def _plain(key: Key, value: Any) -> Any:
    """Return a copy of a value that YAML can represent; raises SettingsError for others."""
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _plain(key, item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(key, item) for item in value]
    if type(value) in _PLAIN:
        return value
    raise SettingsError(f"{key!r} cannot be set to a {type(value).__name__}: texts, numbers, lists and mappings can be")


def _at(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def _has(data: Any, path: tuple[str | int, ...]) -> bool:
    try:
        _at(data, path)
    except (KeyError, IndexError, TypeError):
        return False
    return True
