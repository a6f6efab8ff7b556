"""The line that a record becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amplifier_kit.log.record import compose, encode, normal_error

EVERYTHING: dict[str, Any] = {
    "error": {"type": "E", "message": "m", "code": "c"},
    "data": {"a": {"b": [1, 2]}},
    "redaction": {"applied": True},
    "duration_ms": 1.5,
    "status": "error",
    "module": "m",
    "component": "c",
    "request_id": "7",
    "parent_span_id": "6",
    "span_id": "5",
    "turn_id": "4",
    "trace_id": "3",
    "parent_id": "2",
    "session_id": "1",
    "event": "tool:error",
    "schema": {"name": "amplifier.log", "ver": "1.0.0"},
    "lvl": "ERROR",
    "ts": "2026-01-01T00:00:00+00:00",
}
ORDER = [
    *("ts", "lvl", "schema", "event"),
    *("session_id", "parent_id", "trace_id", "turn_id", "span_id", "parent_span_id", "request_id"),
    *("seq", "component", "module", "status", "duration_ms", "data", "error", "dropped", "redaction", "prev"),
]


def line(record: dict[str, Any], seq: int = 1, dropped: int = 0, prev: str | None = None) -> bytes:
    return compose(record, seq, dropped, prev, lambda: "2026-02-02T00:00:00+00:00", encode)


def test_keys_come_in_the_order_of_the_schema() -> None:
    """However a record is built, its line reads the same way."""
    written = line(EVERYTHING, 9, 3, "sha256:0")
    assert list(json.loads(written)) == ORDER
    expected = {**EVERYTHING, "seq": 9, "dropped": 3, "prev": "sha256:0"}
    assert json.loads(written) == expected


def test_the_seeds_grep_finds_its_line() -> None:
    """On the top level a colon and a comma are followed by one space, in every line."""
    written = line(EVERYTHING, 9, 3, "sha256:0")
    assert b'"event": "tool:error", "session_id": "1", ' in written
    for key in ORDER:
        assert b'"%b": ' % key.encode() in written
    assert written.startswith(b'{"ts": "2026-01-01T00:00:00+00:00", "lvl": "ERROR", "schema": {"name": ')
    assert b"\n" not in written


def test_a_line_is_one_line_for_every_reader() -> None:
    """Python's splitlines and JavaScript see more line ends than `\\n`: those are escaped, other text is not."""
    text = "a\u0085b\u2028c\u2029d\x0b\x0c\x1c\r\né"
    written = line({"event": "e", "data": {"text": text, text: 1}}).decode()
    assert written.splitlines() == [written]
    assert json.loads(written)["data"] == {"text": text, text: 1}
    assert "é" in written


def test_what_is_missing_is_filled_in() -> None:
    """A record of an event's name alone makes a whole line."""
    assert json.loads(line({"event": "log:entry"})) == {
        "ts": "2026-02-02T00:00:00+00:00",
        "lvl": "INFO",
        "schema": {"name": "amplifier.log", "ver": "1.0.0"},
        "event": "log:entry",
        "seq": 1,
        "data": {},
    }


@pytest.mark.parametrize(("data", "expected"), [(None, {}), ("text", {"value": "text"}), ([1], {"value": [1]})])
def test_data_is_always_an_object(data: Any, expected: dict[str, Any]) -> None:
    """A payload that is no object becomes one."""
    assert json.loads(line({"event": "e", "data": data}))["data"] == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("boom", {"message": "boom"}),
        ({"type": "E", "msg": "boom"}, {"type": "E", "message": "boom"}),
        ({"type": "E", "message": "boom", "msg": "other"}, {"type": "E", "message": "boom", "msg": "other"}),
        ({"code": 3}, {"code": 3}),
        (17, {"message": "17"}),
    ],
)
def test_errors_are_objects_with_a_message(error: Any, expected: dict[str, Any]) -> None:
    """A string and the published `msg` are brought into the schema's form."""
    assert normal_error(error) == expected
    assert json.loads(line({"event": "e", "error": error}))["error"] == expected


def test_the_numbers_are_the_writers() -> None:
    """A record cannot bring its own number, loss or hash."""
    written = json.loads(line({"event": "e", "seq": 99, "dropped": 5, "prev": "x"}))
    assert written["seq"] == 1
    assert "dropped" not in written
    assert "prev" not in written


def test_keys_of_tomorrow_are_kept() -> None:
    """A key that the schema does not know yet is written after those it knows."""
    written = line({"event": "e", "new": {"a": 1}, "data": {}}, prev="sha256:0")
    assert written.endswith(b', "data": {}, "new": {"a":1}, "prev": "sha256:0"}')


def test_ids_that_are_no_text() -> None:
    """Whatever an emitter passes as an id is written as it is; equal values of other types are not confused."""
    assert json.loads(line({"event": "e", "turn_id": ["list"]}))["turn_id"] == ["list"]
    assert [json.loads(line({"event": "e", "turn_id": value}))["turn_id"] for value in (1, True, 1.0)] == [1, True, 1.0]
    assert b'"turn_id": true' in line({"event": "e", "turn_id": True})
    assert b'"turn_id": 1,' in line({"event": "e", "turn_id": 1})


def test_many_ids_do_not_pile_up() -> None:
    """What is kept ready for the next line is bounded, and lines stay right beyond that."""
    for index in range(2000):
        assert json.loads(line({"event": "e", "span_id": str(index)}))["span_id"] == str(index)
