"""Make JSON-clean copies of what events carry: data that nobody shares and every log can take."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import Any

#: What no isolation may hold back.
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


def clean(value: Any) -> Any:
    """Return `value` as JSON data that shares nothing with it.

    Tuples become lists, scalar keys strings, anything JSON has no word for `str(value)`: NaN and infinities too, and
    integers of hundreds of digits. Lone surrogates become U+FFFD. What refers to itself, or is nested deeper than
    MAX_DEPTH, becomes a short text in angle brackets. Never raises because of the payload, whatever its objects do;
    RecursionError only when the caller has used the stack up.
    """
    return _clean(value, {0: MAX_CONTAINERS})


def cleaned(fields: dict[str, Any]) -> dict[str, Any]:
    """Return `clean(fields)` for a dict that nobody else holds: itself when it is flat and clean already."""
    for key, item in fields.items():
        kind = type(item)
        if type(key) is not str or not key.isascii():
            break
        if kind is str:
            if not item.isascii():
                break
        elif kind is int:
            if not _LEAST < item < _MOST:
                break
        elif kind not in _ATOMS:
            break
    else:
        return fields
    return clean(fields)  # type: ignore[no-any-return]


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
        try:
            for key, item in (value if kind is dict else _own_items(value)).items():
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
        except RecursionError:
            raise
        except RuntimeError:  # another thread, or an item's own `__str__`, changed it: read a copy, which nobody can
            fields = _clean(value.copy(), path)
        del path[mine]
        return fields
    if kind is list or kind is tuple or issubclass(kind, (list, tuple)):
        mine = id(value)
        path[0] -= 1
        if mine in path or len(path) > MAX_DEPTH or path[0] < 0:
            return _cut(kind, path, mine)
        path[mine] = 0
        items: list[Any] = []
        for item in value if kind is list or kind is tuple else _stored(value):
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
    """Say why a container is not written out."""
    why = "cycle" if mine in path else "too deep" if len(path) > MAX_DEPTH else "too large"
    return f"<{why}: {kind.__name__}>"


def _own_items(value: Any) -> dict[Any, Any]:
    """Return a dict subclass as a plain dict: by its own account, or by what is stored in it when that fails."""
    try:
        return {key: item for key, item in value.items()}  # noqa: C416  # dict() would ask for keys()
    except INTERRUPTS:
        raise
    except BaseException:
        return dict(list(dict.items(value)))  # dict.copy would ask for keys()


def _stored(value: Any) -> Any:
    """Return what a subclass of list or tuple holds, without asking it."""
    return list.copy(value) if issubclass(type(value), list) else tuple.__getitem__(value, slice(None))


def _foreign(value: Any, kind: type) -> Any:
    """Turn a subclass of a JSON scalar into that scalar, and everything else into text."""
    # By its type, not by isinstance: that asks the object, and objects lie (or raise) about their class.
    if issubclass(kind, str):
        return _text(str.__str__(value))
    if issubclass(kind, int):
        return _clean(int.__add__(value, 0), {0: MAX_CONTAINERS})
    if issubclass(kind, float):
        return _clean(float.__add__(value, 0.0), {0: MAX_CONTAINERS})
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
    return str(_clean(key, {0: MAX_CONTAINERS}))


def describe(value: Any) -> str:
    """Return `str(value)`, or a description of it when that fails; nothing it raises gets through but INTERRUPTS."""
    for write in (str, repr):
        try:
            text = write(value)
            return _text(text if type(text) is str else str.__str__(text))
        except INTERRUPTS:
            raise
        except BaseException:  # it cannot say what it is; the next way of writing might
            continue
    return f"<unprintable {type(value).__name__}>"


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
