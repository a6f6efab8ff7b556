"""Copy nested data: JSON-clean for events and logs, container by container for plans and configs.

`clean` is for what leaves a module: handlers, records and results share nothing with it. `copy_tree` and `deep_merge`
are for plans, whose values need be neither JSON nor copyable, and for edits such as redaction.
"""

from __future__ import annotations

import marshal
import re
import sys
from collections.abc import Callable
from functools import partial
from gc import get_referents
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

__all__ = [
    "CIRCULAR",
    "INTERRUPTS",
    "clean",
    "copier",
    "copy_tree",
    "deep_merge",
    "describe",
    "isolate",
    "reason",
]

#: Exceptions that are never caught on behalf of a module.
INTERRUPTS = (KeyboardInterrupt, SystemExit)

#: Containers nested deeper than this arrive as text. Deep enough for any real payload.
MAX_DEPTH = 128

#: An event holds at most this many containers: a few that refer to each other could be billions when written out.
MAX_CONTAINERS = 200_000

_KEY_NAMES = {True: "true", False: "false", None: "null"}
_ATOMS = frozenset((bool, type(None)))
#: Python refuses to write integers of more digits than a configurable limit, which is never lower than this.
_MOST = 10**sys.int_info.str_digits_check_threshold
_LEAST = -_MOST

#: From this many items on, a list is checked and copied as a whole instead of item by item.
_LARGE = 16
_MAX_ITEMS = 1_000_000
_JSON_TYPES = frozenset((dict, list, str, int, float, bool, type(None)))
_JSON_CONTAINERS = frozenset((dict, list))
#: How marshal writes a surrogate; a number may look the same, and then the data is cleaned item by item.
_has_surrogate = re.compile(rb"\xed[\xa0-\xbf]").search


def clean(value: Any) -> Any:
    """Return `value` as JSON data that shares nothing with it.

    Tuples become lists, scalar keys strings, and values that JSON cannot express `str(value)`: NaN and infinities too,
    and integers of hundreds of digits. Lone surrogates become U+FFFD. A container inside itself, or nested deeper than
    MAX_DEPTH, becomes a short text in angle brackets.
    """
    return _clean(value, {0: MAX_CONTAINERS})


def isolate(fields: dict[str, Any], times: int) -> tuple[dict[str, Any] | None, Callable[[], Any]]:
    """Return `clean(fields)`, for a dict that the caller gives away, and a `copier` of it.

    Instead of large data None is returned: one more call of the copier gives it, when and if it is needed. A list or
    dict that occurs twice becomes two: a change in one place of a copy never shows in another.
    """
    path = {0: MAX_CONTAINERS - 1, id(fields): 0}
    for key, item in fields.items():
        if type(key) is not str or not key.isascii():
            fields = clean(fields)
            return fields, copier(fields, times)
        kind = type(item)
        if kind is str:
            if not item.isascii():
                fields[key] = _text(item)
        elif kind is int:
            if not _LEAST < item < _MOST:
                fields[key] = describe(item)
        elif kind not in _ATOMS:
            if kind is list and len(item) >= _LARGE and _is_plain(fields):
                written = marshal.dumps(fields, 4)
                if b"\xed" not in written or not _has_surrogate(written):  # the first test is far cheaper
                    return None, partial(marshal.loads, written)
            fields[key] = _clean(item, path)
    return fields, copier(fields, times)


def _is_plain(value: dict[str, Any]) -> bool:
    """Return whether `value` is JSON data as it is, apart from lone surrogates; False also when that is uncertain.

    Data with one container in two places counts as uncertain: in a copy by marshal they would still be one. Looks at
    all containers of one level at once, in C: for hundreds of small ones, in a fifth of the time of `clean`.
    """
    level: list[Any] = [value]
    containers = 0
    seen: set[int] = set()
    for _ in range(MAX_DEPTH):
        containers += len(level)
        size = sum(map(len, level))
        if containers > MAX_CONTAINERS or size > _MAX_ITEMS:
            return False
        seen.update(map(id, level))
        if len(seen) < containers:
            return False
        items = get_referents(*level)
        if len(items) != size:  # a dict refers to its keys, too, unless all of them are strings
            return False
        kinds = set(map(type, items))
        if not kinds <= _JSON_TYPES:
            return False
        if int in kinds and not all(_LEAST < item < _MOST for item in items if type(item) is int):
            return False
        if float in kinds and not all(isfinite(item) for item in items if type(item) is float):
            return False
        inner = kinds & _JSON_CONTAINERS
        if not inner:
            return True
        level = items if inner == kinds else [item for item in items if type(item) in inner]
    return False


def copier(value: Any, times: int = 2) -> Callable[[], Any]:
    """Return a function that gives a fresh private copy of clean data at every call; `times` says how many calls."""
    if type(value) is not dict:
        return partial(_copy, value)
    for item in value.values():
        if type(item) is dict or type(item) is list:
            break
    else:
        return value.copy
    if times == 1:
        return partial(_copy, value)
    # Far cheaper than parsing JSON again, and exact for the types that clean data consists of.
    return partial(marshal.loads, marshal.dumps(value, 2))


def _clean(value: Any, path: dict[int, int]) -> Any:
    """Clean `value`; `path` holds the ids of the containers around it."""
    # Written out rather than split up: every event of every session passes here.
    kind = type(value)
    if kind is dict or (kind not in _ATOMS and issubclass(kind, dict)):
        mine = id(value)
        path[0] -= 1
        if mine in path or len(path) > MAX_DEPTH or path[0] < 0:
            return _cut(kind, path, mine)
        path[mine] = 0
        fields: dict[str, Any] = {}
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                key = _key(key)
            sort = type(item)
            if sort is str:
                fields[key] = item if item.isascii() else _text(item)
            elif sort is int:
                fields[key] = item if _LEAST < item < _MOST else describe(item)
            elif sort is float:
                fields[key] = item if isfinite(item) else str(item)
            else:
                fields[key] = item if sort in _ATOMS else _clean(item, path)
        del path[mine]
        return fields
    if kind is list or kind is tuple or issubclass(kind, (list, tuple)):
        mine = id(value)
        path[0] -= 1
        if mine in path or len(path) > MAX_DEPTH or path[0] < 0:
            return _cut(kind, path, mine)
        path[mine] = 0
        items: list[Any] = []
        for item in value:
            sort = type(item)
            if sort is str:
                items.append(item if item.isascii() else _text(item))
            elif sort is int:
                items.append(item if _LEAST < item < _MOST else describe(item))
            elif sort is float:
                items.append(item if isfinite(item) else str(item))
            else:
                items.append(item if sort in _ATOMS else _clean(item, path))
        del path[mine]
        return items
    if kind is str:
        return value if value.isascii() else _text(value)
    if kind is int:
        return value if _LEAST < value < _MOST else describe(value)
    if kind is float:
        return value if isfinite(value) else str(value)
    return value if kind in _ATOMS else _foreign(value, kind)


def _cut(kind: type, path: dict[int, int], mine: int) -> str:
    """Return the text that replaces a container that is not copied."""
    why = "cycle" if mine in path else "too deep" if len(path) > MAX_DEPTH else "too large"
    return f"<{why}: {kind.__name__}>"


def _foreign(value: Any, kind: type) -> Any:
    """Turn a subclass of a JSON scalar into that scalar, and everything else into text."""
    if issubclass(kind, str):
        return _text(str.__str__(value))  # the text of an enum's member, not its name
    for scalar in (int, float):
        if issubclass(kind, scalar):
            return clean(scalar(value))
    return describe(value)


def _text(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 file or socket could take."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def _key(key: Any) -> str:
    if issubclass(type(key), str):
        return _text(str.__str__(key))
    if key is None or key is True or key is False:
        return _KEY_NAMES[key]
    return str(clean(key))


def describe(value: Any) -> str:
    """Return `str(value)`, or else `repr(value)`, or a description of it when both fail."""
    for write in (str, repr):
        try:
            return _text(write(value))
        except Exception:  # the next way of writing might work
            continue
    return f"<unprintable {type(value).__name__}>"


def reason(error: BaseException) -> str:
    """Return the text of an exception, or the name of its type when it has none."""
    return describe(error) or type(error).__name__


def _copy(value: Any) -> Any:
    """Copy clean data, which has nothing but plain dicts and lists to copy and no cycles."""
    if type(value) is dict:
        fields = value.copy()
        for key, item in value.items():
            if type(item) is dict or type(item) is list:
                fields[key] = _copy(item)
        return fields
    if type(value) is list:
        return [_copy(item) if type(item) is dict or type(item) is list else item for item in value]
    return value


#: Stands where a container would contain itself.
CIRCULAR: Final = "[CIRCULAR]"

Copy = dict[Any, Any] | list[Any]

_LEAVES: Final = frozenset({str, int, float, bool, type(None)})


def copy_tree(root: Any, edit: Callable[[Copy], None] | None = None) -> Any:
    """Copy dicts, lists, tuples and sets all the way down, and share everything else, such as a client in a config.

    `edit` may change each fresh dict or list before its children follow; a tuple arrives there as a list. A container
    that occurs twice is copied once and shared, so the work is linear; inside itself it becomes `CIRCULAR`.
    """
    return _copy_tree([root], edit, {})[0]


def _copy_tree(value: Any, edit: Callable[[Copy], None] | None, done: dict[int, Any]) -> Any:
    """Copy `value`; `done` maps the id of each original to its copy, to `CIRCULAR` while that is being made."""
    if not isinstance(value, (dict, list, tuple, set, MappingProxyType)):
        return value
    if id(value) in done:
        return done[id(value)]
    if isinstance(value, set):
        return value.copy()
    done[id(value)] = CIRCULAR
    fresh: Any = list(value) if isinstance(value, (list, tuple)) else dict(value)
    if edit is not None:
        edit(fresh)
    for key, item in fresh.items() if isinstance(fresh, dict) else enumerate(fresh):
        if type(item) not in _LEAVES:
            fresh[key] = _copy_tree(item, edit, done)
    if isinstance(value, tuple):
        fresh = getattr(value, "_make", tuple)(fresh)  # named tuples have _make
    done[id(value)] = fresh
    return fresh


def deep_merge(base: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """Return `base` overlaid by `overlay`: dicts merge key by key, everything else is replaced.

    Neither argument is changed, and the result shares no container with them.
    """
    merged: dict[str, Any] = copy_tree(base)
    for key, value in overlay.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = deep_merge(known, value)
        else:
            merged[key] = copy_tree(value)
    return merged
