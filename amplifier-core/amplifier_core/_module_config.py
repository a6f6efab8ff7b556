"""Give every module a config of its own, so that none can change the plan or another's."""

from __future__ import annotations

from copy import copy
from typing import Any


def private_copy(config: Any) -> Any:
    """Copy containers all the way down, keeping their types, and share everything else.

    Config values need not be JSON, nor copyable: a client object in a config reaches the module as it is.
    """
    return _copy(config, {})


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
