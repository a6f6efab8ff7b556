"""Lay a record out as a line of schema v1: its keys in the schema's order, one space after colons and commas between
them, so that `grep '"event": "session:start"'` finds what it looks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_kit.log.encoding import encode

Record = dict[str, Any]

SCHEMA = {"name": "amplifier.log", "ver": "1.0.0"}
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
IDS = ("session_id", "parent_id", "trace_id", "turn_id", "span_id", "parent_span_id", "request_id")
FACTS = ("component", "module", "status", "duration_ms")

#: What the writer itself decides; a record that brings its own is overruled.
_WRITERS_OWN = ("seq", "dropped", "prev")
_ORDER = ("ts", "lvl", "schema", "event", *IDS, "seq", *FACTS, "data", "error", "dropped", "redaction", "prev")
_KNOWN = frozenset(_ORDER)
_LABELS = {key: f'"{key}": '.encode() for key in _ORDER}

_HEAD = [(key, _LABELS[key]) for key in IDS]
_MIDDLE = [(key, _LABELS[key]) for key in FACTS]
_SCHEMA_FIELD = b'"schema": {"name": "amplifier.log", "ver": "1.0.0"}'


def compose(
    record: Record, *, seq: int, dropped: int, prev: str | None, now: Callable[[], str], short: Callable[[Any], bytes]
) -> bytes:
    """Return the line, without its end; `short` gives the JSON of an object in few bytes.

    A missing time, level, schema or payload is filled in; an error that is a text, or has the published key `msg`,
    becomes an object with `message`. Raises what `short` raises.
    """
    schema = record.get("schema")
    parts = [
        b'"ts": ' + encode(record.get("ts") or now()),
        b'"lvl": ' + encode(record.get("lvl") or "INFO"),
        _SCHEMA_FIELD if schema is None or schema == SCHEMA else b'"schema": ' + encode(schema),
        b'"event": ' + encode(record.get("event") or "log:entry"),
    ]
    for key, label in _HEAD:
        value = record.get(key)
        if value is not None:
            parts.append(label + encode(value))
    parts.append(b'"seq": %d' % seq)
    for key, label in _MIDDLE:
        value = record.get(key)
        if value is not None:
            parts.append(label + encode(value))
    data = record.get("data")
    parts.append(b'"data": ' + short(data if isinstance(data, dict) else _as_payload(data)))
    error = record.get("error")
    if error is not None:
        parts.append(b'"error": ' + short(normal_error(error)))
    if dropped:
        parts.append(b'"dropped": %d' % dropped)
    redaction = record.get("redaction")
    if redaction is not None:
        parts.append(b'"redaction": ' + encode(redaction))
    for key in record.keys() - _KNOWN:
        parts.append(encode(str(key)) + b": " + short({"": record[key]})[4:-1])
    if prev is not None:
        parts.append(b'"prev": ' + encode(prev))
    return b"{" + b", ".join(parts) + b"}"


def normal_error(error: Any) -> dict[str, Any]:
    """Return an error as the schema has it: an object with `message`."""
    if not isinstance(error, dict):
        return {"message": error if isinstance(error, str) else str(error)}
    if "message" in error or "msg" not in error:
        return error
    return {("message" if key == "msg" else key): value for key, value in error.items()}


def _as_payload(data: Any) -> dict[str, Any]:
    return {} if data is None else {"value": data}
