"""Turn values into JSON bytes and back, the same bytes for the same value every time: ids are hashes of them."""

from __future__ import annotations

import json
import re
from functools import cache
from hashlib import sha256
from math import isfinite
from types import ModuleType
from typing import Any

#: Containers nested deeper than this are written as text.
MAX_DEPTH = 128

#: orjson reads integers beyond 64 bits as floats; content that might hold one goes to the standard library. With every
#: digit turned into a zero, such a number shows at once.
_ZEROS = bytes(ord("0") if chr(code).isdigit() and code < 128 else code for code in range(256))
_LONG_NUMBER = b"0" * 19
_SURROGATE = re.compile("[\ud800-\udfff]")


@cache
def _orjson() -> ModuleType:
    """Import orjson when the first line is written or read, not when a program that may never do so starts."""
    import orjson

    return orjson


def encode(value: Any) -> bytes:
    """Return compact UTF-8 JSON; what JSON has no word for is written as `plain` says."""
    try:
        encoded: bytes = _orjson().dumps(value)
    except (TypeError, RecursionError):
        # Integers beyond 64 bits, keys that are no strings, foreign objects, surrogates, endless nesting.
        return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return encoded


def decode(content: bytes) -> Any:
    """Return the value that JSON bytes stand for; raise ValueError when they are no JSON."""
    return json.loads(content) if _LONG_NUMBER in content.translate(_ZEROS) else _orjson().loads(content)


def digest(content: bytes) -> str:
    """Return how the log names content: `sha256:` and the hash in hex."""
    return f"sha256:{sha256(content).hexdigest()}"


def plain(value: Any) -> Any:
    """Return a copy that is JSON throughout.

    Keys become strings, foreign objects text, lone surrogates U+FFFD, NaN and infinities null; what refers to itself or
    is nested too deeply becomes a short text in angle brackets. Records that come from `coordinator.log` hold nothing
    of the kind.
    """
    return _plain(value, set())


def _plain(value: Any, path: set[int]) -> Any:
    """Copy `value`; `path` holds the ids of the containers around it."""
    if isinstance(value, (dict, list, tuple)):
        if id(value) in path or len(path) >= MAX_DEPTH:
            return f"<{'cycle' if id(value) in path else 'too deep'}: {type(value).__name__}>"
        path.add(id(value))
        if isinstance(value, dict):
            copy: Any = {_text(key): _plain(item, path) for key, item in value.items()}
        else:
            copy = [_plain(item, path) for item in value]
        path.discard(id(value))
        return copy
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    return _text(value)


def _text(value: Any) -> str:
    try:
        return _SURROGATE.sub("\ufffd", str(value))
    except Exception:
        return f"<unprintable {type(value).__name__}>"
