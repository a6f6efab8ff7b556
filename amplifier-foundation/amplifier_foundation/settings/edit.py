"""Change one scope's settings file: comments and order stay, two writers lose nothing, secrets go to the key store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amplifier_foundation.documents import parse_document
from amplifier_foundation.errors import DocumentError
from amplifier_foundation.files import locked, rewrite_file
from amplifier_foundation.merge import Keys, copied
from amplifier_foundation.settings.checks import check_settings
from amplifier_foundation.settings.errors import SettingsError
from amplifier_foundation.settings.keys import KeyStore
from amplifier_foundation.settings.places import Key, find, is_module_list, parts_of, position
from amplifier_foundation.settings.secrets import clear_secrets, variable_name
from amplifier_foundation.settings.splice import CannotSplice, set_in, unset_in
from amplifier_kit.guard.regular_file import read_regular

#: Settings in which variables are put in place, so that a secret can be referred to.
_EXPANDED = (("config", "providers"), ("modules",), ("overrides",))
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Moved:
    """A secret that went to the key store."""

    #: The dotted key it was to stand at.
    key: str
    #: The variable that stands there now.
    variable: str


@dataclass(frozen=True)
class Edit:
    """What an edit did."""

    path: Path
    #: Whether the file is another one than before.
    changed: bool
    #: Secrets that were to be written, or stood in the file already, and are in the key store now.
    moved: tuple[Moved, ...] = ()


@dataclass
class _Draft:
    """The text of a file while it is changed, and what it must read as."""

    path: Path
    text: str
    data: dict[str, Any]

    def set(self, path: tuple[str | int, ...], value: Any) -> None:
        self._apply(lambda: set_in(self.text, path, value), _set_copy(self.path, self.data, path, value), path)

    def unset(self, path: tuple[str | int, ...]) -> None:
        self._apply(lambda: unset_in(self.text, path), None, path)

    def _apply(self, change: Callable[[], str], wanted: dict[str, Any] | None, path: tuple[str | int, ...]) -> None:
        """Take the changed text if it reads as wanted; without a wish, if nothing but the entry is gone."""
        try:
            text = change()
            data = _parse(self.path, text)
        except (CannotSplice, DocumentError, ValueError) as error:
            raise self._by_hand(path) from error
        wanted = _pruned(self.data, path) if wanted is None else wanted
        if _without_nulls(data) != _without_nulls(wanted):
            raise self._by_hand(path)
        self.text, self.data = text, data

    def _by_hand(self, path: tuple[str | int, ...]) -> SettingsError:
        where = parse_document(self.path, self.text.encode()).where(*path)
        key = ".".join(map(str, path))
        return SettingsError(
            f"{where}: `{key}` is written in a way that cannot be changed safely (anchors, or an unusual layout): "
            "edit the file by hand"
        )


def set_value(path: Path, key: Key, value: Any, keys: KeyStore) -> Edit:
    """Set one key in the file of a scope, which is made if there is none.

    Entries of module lists go by `id`, else `module`: `config.providers.provider-openai.config.priority`; one that is
    not there is added. A secret in clear goes to `keys`, and `${VAR}` into the file. Raises SettingsError, and leaves
    the file as it is, for keys and values that settings cannot have, and when the file is broken or cannot be written.
    """
    value = _plain(key, value)

    def change(draft: _Draft) -> None:
        place, rest = _place(draft.data, parts_of(key))
        draft.set(place, _filled(rest, value))

    return _edit(path, change, keys)


def unset_value(path: Path, key: Key, keys: KeyStore) -> Edit:
    """Take one key out of the file of a scope; `changed` tells whether it was there. Raises SettingsError."""

    def change(draft: _Draft) -> None:
        place, rest = _place(draft.data, parts_of(key))
        if not rest and _has(draft.data, place):
            draft.unset(place)

    return _edit(path, change, keys, is_removal=True)


def append_value(path: Path, key: Key, value: Any, keys: KeyStore) -> Edit:
    """Add an item to the list at a key unless it is in it already; raises SettingsError as `set_value` does."""
    value = _plain(key, value)

    def change(draft: _Draft) -> None:
        parts = parts_of(key)
        items = find(draft.data, parts)
        if items is not None and not isinstance(items, list):
            raise SettingsError(f"{path}: `{'.'.join(parts)}` is no list: nothing can be added to it")
        if value in (items or []):
            return
        place, rest = _place(draft.data, parts)
        draft.set(*((place, _filled(rest, [value])) if not items else ((*place, len(items)), value)))

    return _edit(path, change, keys)


def remove_item(path: Path, key: Key, value: Any, keys: KeyStore) -> Edit:
    """Take an item out of the list at a key; `changed` tells whether it was there. Raises SettingsError."""

    def change(draft: _Draft) -> None:
        items = find(draft.data, parts_of(key))
        if isinstance(items, list) and value in items:
            place, _ = _place(draft.data, parts_of(key))
            draft.unset((*place, items.index(value)))

    return _edit(path, change, keys, is_removal=True)


def _edit(path: Path, change: Callable[[_Draft], None], keys: KeyStore, *, is_removal: bool = False) -> Edit:
    target = Path(os.path.realpath(path))  # a link to a file elsewhere stays a link
    if is_removal and not target.exists():
        return Edit(path, changed=False)
    with _writing(path, target):
        before = _content(target)
        text, has_mark, is_crlf = _opened(path, before)
        draft = _Draft(path, text, _parse(path, text))
        change(draft)
        document = parse_document(path, draft.text.encode())
        check_settings(document.data, document.where)
        moved = _move_secrets(draft, keys, _parse(path, text)) if draft.text != text else ()
        if draft.text == text:
            return Edit(path, changed=False)
        content = draft.text.replace("\n", "\r\n") if is_crlf else draft.text
        rewrite_file(target, content.encode("utf-8-sig" if has_mark else "utf-8"))
    return Edit(path, changed=True, moved=moved)


def _move_secrets(draft: _Draft, keys: KeyStore, before: dict[str, Any]) -> tuple[Moved, ...]:
    """Put variables in place of secrets; the key store has them before the file loses them.

    Raises SettingsError for a new one that no variable can stand for; what stood in the file before is left there.
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
    """Return the keys in the file that lead to a place, and the rest for which a new module entry must be made."""
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
    """Return what to write: the value, or a new module entry around it."""
    if not rest:
        return value
    name, *inner = rest
    if not inner:
        return {"module": name, **value} if isinstance(value, dict) else value
    for part in reversed(inner):
        value = {part: value}
    return {"module": name, **value}


def _plain(key: Key, value: Any) -> Any:
    """Return a copy of a value that YAML has a form for; raises SettingsError for others."""
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _plain(key, item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(key, item) for item in value]
    if type(value) in _PLAIN:
        return value
    raise SettingsError(f"{key!r} cannot be set to a {type(value).__name__}: texts, numbers, lists and mappings can be")


def _set_copy(file: Path, data: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    fresh: dict[str, Any] = copied(data)
    target: Any = fresh
    for here, following in zip(path, [*path[1:], None], strict=True):
        if isinstance(here, int) and isinstance(target, list) and here == len(target):
            target.append(None)
        if following is None:
            target[here] = copied(value)
        elif (target[here] if isinstance(here, int) else target.get(here)) is None:
            target[here] = [] if isinstance(following, int) else {}
        target = target[here]
        if following is not None and not isinstance(target, list if isinstance(following, int) else dict):
            key = ".".join(map(str, path))
            raise SettingsError(f"{file}: `{key}` cannot be set: something on the way to it is no mapping")
    return fresh


def _pruned(data: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
    fresh: dict[str, Any] = copied(data)
    target = _at(fresh, path[:-1])
    del target[path[-1]]
    return fresh


def _without_nulls(value: Any) -> Any:
    """Return the data without what is empty: whether a section is empty or not there makes no difference."""
    if isinstance(value, dict):
        kept = {key: _without_nulls(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, {}, [])}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else (type(value).__name__, value)


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


def _parse(path: Path, text: str) -> dict[str, Any]:
    return parse_document(path, text.encode()).data


def _content(target: Path) -> bytes:
    try:
        return read_regular(target)
    except FileNotFoundError:
        return b""


def _opened(path: Path, content: bytes) -> tuple[str, bool, bool]:
    """Return the text with plain line ends, whether it has a byte order mark, and whether lines end in CRLF."""
    parse_document(path, content)
    text = content.decode("utf-8-sig")
    is_crlf = text.count("\r\n") * 2 > text.count("\n")
    return text.replace("\r\n", "\n"), content.startswith(b"\xef\xbb\xbf"), is_crlf


@contextmanager
def _writing(path: Path, target: Path) -> Iterator[None]:
    """Hold the lock of a settings file; faults of the file system and of the file become SettingsError."""
    try:
        with locked(target.with_name(f"{target.name}.lock")):
            yield
    except DocumentError as error:
        raise SettingsError(str(error)) from error
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be written: {error.strerror or error}: check who owns the folder, or choose another scope "
            "or another AMPLIFIER_HOME"
        ) from error
