"""Find places in settings by dotted keys, in which the entries of a module list go by `id`, else `module`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amplifier_foundation.merge import ANY, SETTINGS, Keys, module_key
from amplifier_foundation.settings.errors import SettingsError

#: `bundle.active`, or its parts when a name has a dot in it: `("bundle", "added", "my.bundle")`.
Key = str | Sequence[str]


def parts_of(key: Key) -> Keys:
    """Return the names that a key is made of; raises SettingsError when one is empty."""
    parts = tuple(key.split(".")) if isinstance(key, str) else tuple(key)
    if not parts or not all(isinstance(part, str) and part for part in parts):
        raise SettingsError(f"{key!r} is no key of settings: write names with dots between them, like bundle.active")
    return parts


def is_module_list(at: Sequence[str]) -> bool:
    """Tell whether the list at this place holds modules."""
    return any(
        len(at) == len(place) and all(want in (ANY, part) for want, part in zip(place, at, strict=True))
        for place in SETTINGS.modules
    )


def is_united(at: Sequence[str]) -> bool:
    """Tell whether the lists of all scopes at this place are joined."""
    return tuple(at) in SETTINGS.united


def position(entries: Any, name: str) -> int | None:
    """Return where in a module list the entry of that name stands."""
    if not isinstance(entries, list):
        return None
    return next((index for index, entry in enumerate(entries) if module_key(entry) == name), None)


def find(data: Any, parts: Keys) -> Any:
    """Return the value at a place; None when there is none."""
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
    """Yield every value that is not a mapping with keys in it: its place, the keys to it in the file, and itself."""
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
