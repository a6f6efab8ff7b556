"""The lines of a log: JSON in and out, and a record as a line of schema v1.

A line has its keys in the schema's order, with one space after the colons and commas between them, so that
`grep '"event": "session:start"'` works.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from amplifier_core.data import clean

Record = dict[str, Any]

IDS = ("session_id", "parent_id", "trace_id", "turn_id", "span_id", "parent_span_id", "request_id")
_NAMES = ("component", "module", "status")
FACTS = (*_NAMES, "duration_ms")

_ORDER = ("ts", "lvl", "schema", "event", *IDS, "seq", *FACTS, "data", "error", "dropped", "redaction", "prev")
_KNOWN = frozenset(_ORDER)
_MAX_READY = 512
_LINE_ENDS = [(chr(code).encode(), b"\\u%04x" % code) for code in (0x85, 0x2028, 0x2029)]
_PREV = b'"prev": "sha256:'

#: orjson reads integers beyond 64 bits as floats, so content that may hold one goes to the standard library. With every
#: digit replaced by a zero, such a number is easy to find.
_ZEROS = bytes(ord("0") if chr(code).isdigit() and code < 128 else code for code in range(256))
_LONG_NUMBER = b"0" * 19

# -- JSON: equal values give the same bytes, since blobs are named by their hash --


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


# -- a line --


def compose(
    record: Record, seq: int, dropped: int, prev: str | None, now: Callable[[], str], short: Callable[[Any], bytes]
) -> bytes:
    """Return the line without its newline; `short` encodes an object, with large values replaced by references.

    A missing time, level or payload is filled in; an error that is a text, or has the published key `msg`,
    becomes an object with `message`; `seq`, `dropped` and `prev` of the record are ignored. Raises what `short` raises.
    """
    get = record.get
    data, error, duration, redaction = get("data"), get("error"), get("duration_ms"), get("redaction")
    ids = (
        *(get("session_id"), get("parent_id"), get("trace_id"), get("turn_id")),
        *(get("span_id"), get("parent_span_id"), get("request_id")),
    )
    line = (
        b'{"ts": %b, "lvl": %b, "schema": {"name": "amplifier.log", "ver": "1.0.0"}, "event": %b, %b"seq": %d, %b'
        % (
            encode(get("ts") or now()),
            encode(get("lvl") or "INFO"),
            encode(get("event") or "log:entry"),
            _fields(IDS, ids),
            seq,
            _fields(_NAMES, (get("component"), get("module"), get("status"))),
        )
    )
    if duration is not None:
        line += b'"duration_ms": %b, ' % encode(duration)
    line += b'"data": %b' % short(data if isinstance(data, dict) else {} if data is None else {"value": data})
    if error is not None:
        line += b', "error": %b' % short(normal_error(error))
    if dropped:
        line += b', "dropped": %d' % dropped
    if redaction is not None:
        line += b', "redaction": %b' % encode(redaction)
    if not _KNOWN.issuperset(record):
        for key in [key for key in record if key not in _KNOWN]:
            # An object with the empty key alone has the value's JSON after its first four bytes and before its last.
            line += b", %b: %b" % (encode(str(key)), short({"": record[key]})[4:-1])
    line += b', "prev": "%b"}' % prev.encode() if prev is not None else b"}"
    return line if line.isascii() else _on_one_line(line)


def has_hash(line: bytes) -> bool:
    """Return whether a line has the hash of the one before it."""
    return line[-len(_PREV) - 66 :].startswith(_PREV)


def _on_one_line(line: bytes) -> bytes:
    """Escape the characters besides newline at which some readers end a line; JSON has them in strings only."""
    for character, escaped in _LINE_ENDS:
        line = line.replace(character, escaped)
    return line


#: The JSON of fields by their values: the same ids and names come on every line of a turn.
_ready: dict[tuple[Any, ...], bytes] = {}


def _fields(keys: tuple[str, ...], values: tuple[Any, ...]) -> bytes:
    """Return `"key": value, ` for each value that is not None; no two groups of keys have the same length."""
    try:
        if (known := _ready.get(values)) is not None:
            return known
    except TypeError:  # an id that is a list or an object
        pass
    pairs = zip(keys, values, strict=True)
    fields = b"".join(b'"%b": %b, ' % (key.encode(), encode(value)) for key, value in pairs if value is not None)
    if all(value is None or type(value) is str for value in values):  # 1 and True are equal keys
        if len(_ready) >= _MAX_READY:
            _ready.clear()
        _ready[values] = fields
    return fields


def normal_error(error: Any) -> dict[str, Any]:
    """Return an error as an object with `message`, as the schema has it."""
    if not isinstance(error, dict):
        return {"message": error if isinstance(error, str) else str(error)}
    if "message" in error or "msg" not in error:
        return error
    return {("message" if key == "msg" else key): value for key, value in error.items()}


def schema_path() -> Path:
    """Return the file that holds the schema (JSON Schema 2020-12)."""
    return Path(__file__).with_name("schema-v1.json")


def schema() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(schema_path().read_text(encoding="utf-8"))
    return read
