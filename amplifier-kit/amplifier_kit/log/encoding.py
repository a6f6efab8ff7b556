"""Encode values as JSON and decode them: equal values give the same bytes, since blobs are named by their hash."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from types import ModuleType
from typing import Any

from amplifier_core.data import clean

#: orjson reads integers beyond 64 bits as floats, so content that may hold one goes to the standard library. With every
#: digit replaced by a zero, such a number is easy to find.
_ZEROS = bytes(ord("0") if chr(code).isdigit() and code < 128 else code for code in range(256))
_LONG_NUMBER = b"0" * 19


@cache
def _orjson() -> ModuleType:
    """Import orjson when the first line is written or read: it is slow to import, and many commands need no log."""
    import orjson

    return orjson


def encode(value: Any) -> bytes:
    """Return compact UTF-8 JSON; values without a JSON form are written as `amplifier_core.data.clean` says."""
    try:
        encoded: bytes = _orjson().dumps(value)
    except (TypeError, RecursionError):
        # Integers beyond 64 bits, keys that are not strings, foreign objects, surrogates, endless nesting. Records from
        # `coordinator.log` hold only the first.
        return json.dumps(clean(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return encoded


def decode(content: bytes) -> Any:
    """Return the value of JSON bytes; raise ValueError when they are not JSON."""
    return json.loads(content) if _LONG_NUMBER in content.translate(_ZEROS) else _orjson().loads(content)


def digest(content: bytes) -> str:
    """Return the name of content in the log: `sha256:` and the hash in hex."""
    return f"sha256:{sha256(content).hexdigest()}"
