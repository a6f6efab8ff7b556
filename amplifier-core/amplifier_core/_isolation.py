"""Make copies nobody shares: JSON-clean ones for events, container copies for configs, and merges of plans."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import Any

#: Containers nested deeper than this arrive as text. Deep enough for any real payload.
MAX_DEPTH = 128

_KEY_NAMES = {True: "true", False: "false", None: "null"}
_LOADS = marshal.loads


def clean(value: Any) -> Any:
    """Return `value` as JSON data that shares nothing with it.

    Tuples become lists, scalar keys strings, anything JSON has no word for `str(value)`: NaN and infinities too. Lone
    surrogates become U+FFFD. What refers to itself, or is nested deeper than MAX_DEPTH, becomes a short text in angle
    brackets. Never raises for any payload.
    """
    try:
        return _clean(value, ())
    except RecursionError:
        return f"<too deep: {type(value).__name__}>"


def copier(value: Any) -> Callable[[], Any]:
    """Return a function that gives a fresh private copy of clean data at every call."""
    if type(value) is dict and not any(type(item) is dict or type(item) is list for item in value.values()):
        return value.copy
    # Far cheaper than parsing JSON again, and exact for the types that clean data consists of.
    return partial(_LOADS, marshal.dumps(value, 2))


def _clean(value: Any, path: tuple[int, ...]) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _text(value)
    if kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return value if isfinite(value) else str(value)
    if isinstance(value, dict):
        if _endless(value, path):
            return f"<{'cycle' if id(value) in path else 'too deep'}: {kind.__name__}>"
        inner = (*path, id(value))
        return {
            (key if type(key) is str and key.isascii() else _key(key)): (
                item if type(item) is int or (type(item) is str and item.isascii()) else _clean(item, inner)
            )
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        if _endless(value, path):
            return f"<{'cycle' if id(value) in path else 'too deep'}: {kind.__name__}>"
        inner = (*path, id(value))
        return [
            item if type(item) is int or (type(item) is str and item.isascii()) else _clean(item, inner)
            for item in value
        ]
    return _foreign(value)


def _endless(container: Any, path: tuple[int, ...]) -> bool:
    return len(path) >= MAX_DEPTH or id(container) in path


def _foreign(value: Any) -> Any:
    """Turn a subclass of a JSON scalar into that scalar, and everything else into text."""
    if isinstance(value, str):
        return _text(str.__str__(value))
    if isinstance(value, int):
        return int.__add__(value, 0)
    if isinstance(value, float):
        return _clean(float.__add__(value, 0.0), ())
    return _text(describe(value))


def _text(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 file or socket could take."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def _key(key: Any) -> str:
    if isinstance(key, str):
        return _text(str.__str__(key))
    if key is None or key is True or key is False:
        return _KEY_NAMES[key]
    return str(_clean(key, ()))


def describe(value: Any) -> str:
    """Return `str(value)`, or a description of it when that fails; never raises an Exception."""
    try:
        text = str(value)
        return text if type(text) is str else str.__str__(text)
    except Exception:
        try:
            return repr(value)
        except Exception:
            return f"<unprintable {type(value).__name__}>"


def copy_containers(value: Any) -> Any:
    """Copy dicts and lists all the way down and share everything else.

    Config values need not be JSON, nor copyable: a client object in a config reaches the module as it is.
    """
    return _copy(value, {})


def _copy(value: Any, done: dict[int, Any]) -> Any:
    kind = type(value)
    if kind is not dict and kind is not list:
        return value
    known = done.get(id(value))
    if known is not None:
        return known
    if kind is dict:
        fresh_dict: dict[Any, Any] = {}
        done[id(value)] = fresh_dict
        fresh_dict.update((key, _copy(item, done)) for key, item in value.items())
        return fresh_dict
    fresh_list: list[Any] = []
    done[id(value)] = fresh_list
    fresh_list.extend(_copy(item, done) for item in value)
    return fresh_list


def deep_merge(base: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """Return `base` overlaid by `overlay`: dicts merge key by key, everything else is replaced.

    Neither argument is changed, and the result shares no dict or list with them.
    """
    merged: dict[str, Any] = copy_containers(base)
    for key, value in overlay.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = deep_merge(known, value)
        else:
            merged[key] = copy_containers(value)
    return merged
