"""Copy and merge plans and configs, whose values need be neither JSON nor copyable."""

from __future__ import annotations

from copy import copy
from typing import Any


def copy_containers(value: Any) -> Any:
    """Copy containers all the way down, keeping their types, and share everything else.

    Config values need not be JSON, nor copyable: a client object in a config reaches the module as it is.
    """
    return _copy(value, {})


def _copy(value: Any, done: dict[int, Any]) -> Any:
    """Copy `value`; `done` holds the copies made so far by the id of their original, for what refers to itself."""
    if id(value) in done:
        return done[id(value)]
    if isinstance(value, dict):
        mapping = done[id(value)] = {} if type(value) is dict else copy(value)
        for key, item in value.items():
            mapping[key] = _copy(item, done)
        return mapping
    if isinstance(value, list):
        items = done[id(value)] = [] if type(value) is list else copy(value)
        items[:] = [_copy(item, done) for item in value]
        return items
    if isinstance(value, tuple):
        make = tuple if type(value) is tuple else getattr(value, "_make", None)  # named tuples have _make
        return make(_copy(item, done) for item in value) if make is not None else value
    return copy(value) if isinstance(value, (set, bytearray)) else value


def deep_merge(base: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """Return `base` overlaid by `overlay`: dicts merge key by key, everything else is replaced.

    Neither argument is changed, and the result shares no container with them.
    """
    merged: dict[str, Any] = copy_containers(base)
    for key, value in overlay.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = deep_merge(known, value)
        else:
            merged[key] = copy_containers(value)
    return merged
