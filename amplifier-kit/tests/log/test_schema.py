"""The published schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from amplifier_core.events import ALL_EVENTS
from amplifier_core.testing import MockCoordinator
from amplifier_kit.log.record import _ORDER, schema, schema_path
from amplifier_kit.log.writer import SessionLog

VALIDATOR = Draft202012Validator(schema())


def test_it_is_a_schema() -> None:
    """The file is JSON Schema 2020-12 itself."""
    Draft202012Validator.check_schema(schema())
    assert schema_path().name == "schema-v1.json"


def test_it_knows_every_key_in_order() -> None:
    """The schema lists the keys in the order in which they are written."""
    assert tuple(schema()["properties"]) == _ORDER


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]


def test_every_kind_of_line_is_valid(tmp_path: Path, messages: Callable[..., list[dict[str, Any]]]) -> None:
    """Blobs, lists, literals, errors, losses, hashes: all of it is in the schema."""
    coordinator = MockCoordinator()
    history = messages(40)
    with SessionLog(tmp_path, verify=True) as log:
        coordinator.add_log_sink(log.write)
        with coordinator.span("work"):
            for event in ALL_EVENTS:
                coordinator.log("INFO", "", event=event, status="ok", duration_ms=1, module="m", component="c")
            for error in ("text", {"type": "E", "msg": "m"}, {"message": "long " * 2000, "code": 3}):
                coordinator.log("ERROR", "", event="tool:error", error=error)
            for count in range(3):
                coordinator.log("DEBUG", "", event="llm:request", messages=[*history, *messages(count)], raw={"a": 1})
            coordinator.log("INFO", "literal", quoted={"$blob": 1}, deep={"$literal": {"x": "y" * 5000}})
            log._os_write = lambda *_: 0
            coordinator.log("INFO", "lost")
            log._os_write = SessionLog._os_write
            coordinator.log("INFO", "kept", redaction={"rules": ["secrets"]})
    written = lines(tmp_path)
    for line in written:
        VALIDATOR.validate(line)
    assert [line["seq"] for line in written] == [*range(1, 51), 52]
    assert written[-1]["dropped"] == 1


@given(
    st.dictionaries(
        st.text(max_size=6) | st.sampled_from(["$blob", "$list", "$literal", "messages"]),
        st.none() | st.integers() | st.text(max_size=10) | st.just("x" * 5000) | st.lists(st.just({"role": "r" * 90})),
        max_size=4,
    )
)
def test_any_payload_makes_a_valid_line(payload: dict[str, Any]) -> None:
    """Whatever an event carries, its line is valid."""
    with TemporaryDirectory() as folder:
        with SessionLog(folder) as log:
            log.write({"event": "e", "data": payload})
        assert list(VALIDATOR.iter_errors(lines(Path(folder))[0])) == []


GOOD: dict[str, Any] = {
    "ts": "2026-01-01T00:00:00+00:00",
    "lvl": "INFO",
    "schema": {"name": "amplifier.log", "ver": "1.0.0"},
    "event": "e",
    "seq": 1,
    "data": {},
}


@pytest.mark.parametrize(
    "change",
    [
        {"ts": "yesterday"},
        {"lvl": "LOUD"},
        {"seq": 0},
        {"seq": "1"},
        {"data": []},
        {"data": {"a": {"$blob": "sha256:short", "bytes": 5000, "preview": ""}}},
        {"data": {"a": [{"$list": f"sha256:{'0' * 64}"}]}},
        {"data": {"a": {"$list": f"sha256:{'0' * 64}", "append": [], "keep": 1}}},
        {"error": "text"},
        {"schema": {"name": "amplifier.log", "ver": "2.0.0"}},
        {"prev": "md5:0"},
        {"session_id": 7},
    ],
)
def test_what_is_wrong_is_refused(change: dict[str, Any]) -> None:
    """The schema is no rubber stamp."""
    VALIDATOR.validate(GOOD)
    with pytest.raises(ValidationError):
        VALIDATOR.validate({**GOOD, **change})
