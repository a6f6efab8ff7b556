"""Lay a record out as a line of schema v1: its keys in the schema's order, one space after colons and commas between
them, so that `grep '"event": "session:start"'` finds what it looks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_kit.log.encoding import encode

Record = dict[str, Any]

SCHEMA = {"name": "amplifier.log", "ver": "1.0.0"}
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
IDS = ("session_id", "parent_id", "trace_id", "turn_id", "span_id", "parent_span_id", "request_id")
FACTS = ("component", "module", "status", "duration_ms")

_ORDER = ("ts", "lvl", "schema", "event", *IDS, "seq", *FACTS, "data", "error", "dropped", "redaction", "prev")
_KNOWN = frozenset(_ORDER)
#: How many combinations of names, and of ids, are kept ready.
_REMEMBERED = 512
_LINE_ENDS = [(chr(code).encode(), b"\\u%04x" % code) for code in (0x85, 0x2028, 0x2029)]
_PREV = b'"prev": "sha256:'
_SCHEMA_FIELD = b'"schema": {"name": "amplifier.log", "ver": "1.0.0"}'


def compose(
    record: Record, seq: int, dropped: int, prev: str | None, now: Callable[[], str], short: Callable[[Any], bytes]
) -> bytes:
    """Return the line, without its end; `short` gives the JSON of an object in few bytes.

    A missing time, level or payload is filled in; an error that is a text, or has the published key `msg`,
    becomes an object with `message`; `seq`, `dropped` and `prev` are the writer's alone. Raises what `short` raises.
    """
    get = record.get
    data, error, redaction = get("data"), get("error"), get("redaction")
    names = (get("lvl") or "INFO", get("event") or "log:entry")
    ids = (
        *(get("session_id"), get("parent_id"), get("trace_id"), get("turn_id")),
        *(get("span_id"), get("parent_span_id"), get("request_id")),
    )
    parts = [b'{"ts": %b, %b%b"seq": %d' % (encode(get("ts") or now()), _naming(names), _identity(ids), seq)]
    parts += [_field(key, fact) for key in FACTS if (fact := get(key)) is not None]
    parts.append(b'"data": %b' % short(data if isinstance(data, dict) else _as_payload(data)))
    if error is not None:
        parts.append(b'"error": %b' % short(normal_error(error)))
    if dropped:
        parts.append(b'"dropped": %d' % dropped)
    if redaction is not None:
        parts.append(_field("redaction", redaction))
    if not _KNOWN.issuperset(record):
        parts.extend(_extra(key, value, short) for key, value in record.items() if key not in _KNOWN)
    if prev is not None:
        parts.append(b'"prev": "%b"' % prev.encode())
    line = b", ".join(parts) + b"}"
    return line if line.isascii() else _one_line(line)


def has_hash(line: bytes) -> bool:
    """Tell whether a line carries the hash of the one before it."""
    return line[-len(_PREV) - 66 :].startswith(_PREV)


def _one_line(line: bytes) -> bytes:
    """Escape the characters, other than newline, at which some readers end a line; JSON has no others outside text."""
    for character, escaped in _LINE_ENDS:
        line = line.replace(character, escaped)
    return line


def _remembered(function: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Remember results: the same names and ids come on every line of a turn."""
    known: dict[Any, bytes] = {}

    def remembering(values: tuple[Any, ...]) -> bytes:
        try:
            found = known.get(values)
        except TypeError:  # an id that is a list or an object
            return function(values)
        if found is None:
            if len(known) >= _REMEMBERED:
                known.clear()
            found = function(values)
            if all(value is None or type(value) is str for value in values):  # 1 and True are equal, but not alike
                known[values] = found
        return found

    return remembering


@_remembered
def _naming(names: tuple[Any, Any]) -> bytes:
    level, event = names
    return b"%b, %b, %b, " % (_field("lvl", level), _SCHEMA_FIELD, _field("event", event))


@_remembered
def _identity(ids: tuple[Any, ...]) -> bytes:
    return b"".join(b"%b, " % _field(key, value) for key, value in zip(IDS, ids, strict=True) if value is not None)


def _field(key: str, value: Any) -> bytes:
    return b'"%b": %b' % (key.encode(), encode(value))


def _extra(key: str, value: Any, short: Callable[[Any], bytes]) -> bytes:
    # An object with the empty key alone has the value's JSON after its first four bytes and before its last.
    return encode(str(key)) + b": " + short({"": value})[4:-1]


def normal_error(error: Any) -> dict[str, Any]:
    """Return an error as the schema has it: an object with `message`."""
    if not isinstance(error, dict):
        return {"message": error if isinstance(error, str) else str(error)}
    if "message" in error or "msg" not in error:
        return error
    return {("message" if key == "msg" else key): value for key, value in error.items()}


def _as_payload(data: Any) -> dict[str, Any]:
    return {} if data is None else {"value": data}


def schema_path() -> Path:
    """Return the file that holds the schema (JSON Schema 2020-12)."""
    return Path(__file__).with_name("schema-v1.json")


def schema() -> dict[str, Any]:
    """Return the schema of one line of version 1."""
    import json

    read: dict[str, Any] = json.loads(schema_path().read_text(encoding="utf-8"))
    return read
