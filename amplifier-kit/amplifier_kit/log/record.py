"""Turn a record into a line of schema v1: its keys in the schema's order, with one space after the colons and commas
between them, so that `grep '"event": "session:start"'` works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_kit.log.encoding import encode

Record = dict[str, Any]

IDS = ("session_id", "parent_id", "trace_id", "turn_id", "span_id", "parent_span_id", "request_id")
_NAMES = ("component", "module", "status")
FACTS = (*_NAMES, "duration_ms")

_ORDER = ("ts", "lvl", "schema", "event", *IDS, "seq", *FACTS, "data", "error", "dropped", "redaction", "prev")
_KNOWN = frozenset(_ORDER)
_MAX_READY = 512
_LINE_ENDS = [(chr(code).encode(), b"\\u%04x" % code) for code in (0x85, 0x2028, 0x2029)]
_PREV = b'"prev": "sha256:'


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
    """Return the schema of one line of version 1."""
    import json

    read: dict[str, Any] = json.loads(schema_path().read_text(encoding="utf-8"))
    return read
