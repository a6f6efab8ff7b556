"""Encode YAML values as JSON and back without loss: dates, bytes, sets, keys that are not text.

Records of sessions keep plans this way. The kernel's `amplifier_core.data.clean` is for data that only people and logs
read: what JSON lacks becomes text there.

| value | in JSON |
|---|---|
| a date, a time | `{"$date": "2024-01-31"}`, `{"$time": "2024-01-31T10:00:00+00:00"}` |
| bytes, a set | `{"$bytes": "base64"}`, `{"$set": [...]}` |
| NaN and infinities | `{"$float": "nan"}` |
| keys that are not text | `{"$keys": [[key, value], ...]}`, beside the keys that are |
| a key that starts with `$` | with another `$` in front |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from math import isfinite
from typing import Any


def encode(value: Any) -> Any:
    """Return nested data as JSON; values that YAML does not have become text."""
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if isfinite(value) else {"$float": repr(value)}
    if isinstance(value, Mapping):
        texts = {_escaped(key): encode(item) for key, item in value.items() if isinstance(key, str)}
        others = [[encode(key), encode(item)] for key, item in value.items() if not isinstance(key, str)]
        return {**texts, "$keys": others} if others else texts
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, datetime):
        return {"$time": value.isoformat()}
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    if isinstance(value, bytes):
        import base64

        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, set | frozenset):
        return {"$set": sorted((encode(item) for item in value), key=repr)}
    return str(value)


def decode(value: Any) -> Any:
    """Return the values that `encode` was given; raises ValueError or TypeError for other data."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (key, item), *_ = value.items()
        if key in _READERS:
            return _READERS[key](item)
    back = {key.removeprefix("$"): decode(item) for key, item in value.items() if key != "$keys"}
    return back | {_hashable(decode(key)): decode(item) for key, item in value.get("$keys", ())}


def _bytes(text: str) -> bytes:
    import base64

    return base64.b64decode(text, validate=True)


_READERS: dict[str, Callable[[Any], Any]] = {
    "$date": date.fromisoformat,
    "$time": datetime.fromisoformat,
    "$float": float,
    "$bytes": _bytes,
    "$set": lambda items: {_hashable(decode(item)) for item in items},
}


def _escaped(key: str) -> str:
    return f"${key}" if key.startswith("$") else key


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
