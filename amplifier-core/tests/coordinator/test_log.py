"""The log of a coordinator: records of schema v1, processors, sinks."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator

Record = dict[str, Any]
#: The keys of schema v1 that a record may have, in their order.
SCHEMA_ORDER = (
    *("ts", "lvl", "schema", "event", "session_id", "parent_id", "trace_id", "turn_id", "span_id", "parent_span_id"),
    *("request_id", "component", "module", "status", "duration_ms", "data", "error"),
)


class Log:
    """A coordinator of a session with one sink that keeps everything."""

    def __init__(self) -> None:
        self.kernel = ModuleCoordinator(SimpleNamespace(session_id="s", parent_id="p", config={}))
        self.records: list[Record] = []
        self.kernel.add_log_sink(self.records.append)

    def __call__(self, *arguments: Any, **data: Any) -> Record:
        self.kernel.log(*arguments, **data)
        return self.records[-1]


@pytest.fixture
def log() -> Log:
    """Give a log with one sink."""
    return Log()


def test_a_record_says_what_when_and_who(log: Log) -> None:
    """The smallest record has time, level, schema, event, ids and the message."""
    record = log("INFO", "hello", count=2)

    assert datetime.fromisoformat(record.pop("ts")).utcoffset() == timedelta(0)
    assert record == {
        "lvl": "INFO",
        "schema": {"name": "amplifier.log", "ver": "1.0.0"},
        "event": "log:entry",
        "session_id": "s",
        "parent_id": "p",
        "component": "app",
        "data": {"message": "hello", "count": 2},
    }


def test_keys_come_in_the_order_of_the_schema(log: Log) -> None:
    """However they are given, the keys of a record have the schema's order."""
    with log.kernel.span("outer"), log.kernel.span("inner"):
        record = log(
            "INFO",
            "m",
            event="llm:response",
            error={"message": "no"},
            duration_ms=1.5,
            status="error",
            module="provider-x",
            component="provider",
            request_id="r",
            turn_id="t",
            other=1,
        )

    assert tuple(record) == SCHEMA_ORDER


def test_ids_at_hand_fill_the_gaps(log: Log) -> None:
    """Without ids in the payload, or with empty ones, a record carries those of the running span."""
    with log.kernel.span("outer") as outer, log.kernel.span("inner") as inner:
        record = log("INFO", "m", session_id="", span_id=None)

    assert record["session_id"] == "s"
    assert (record["trace_id"], record["span_id"]) == (inner.trace_id, inner.span_id)
    assert record["parent_span_id"] == outer.span_id


@pytest.mark.parametrize(
    ("key", "value"),
    [("session_id", {"key": "sk-1"}), ("request_id", 7), ("status", 404), ("module", ["m"]), ("duration_ms", True)],
)
def test_what_the_schema_has_no_place_for_stays_in_the_payload(log: Log, key: str, value: Any) -> None:
    """A key of the wrong type is not lifted to where nothing is ever redacted."""
    record = log("INFO", **{key: value})

    assert record["data"] == {key: value}
    assert record.get(key) in (None, "s")


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", "DEBUG"),
        ("info", "INFO"),
        ("Warning", "WARNING"),
        ("warn", "WARNING"),
        ("error", "ERROR"),
        ("critical", "ERROR"),
        (logging.DEBUG, "DEBUG"),
        (logging.WARNING, "WARNING"),
        (logging.CRITICAL, "ERROR"),
        ("loud", "INFO"),
        (17, "INFO"),
        (None, "INFO"),
        (object(), "INFO"),
    ],
)
def test_levels_are_those_of_the_schema(log: Log, level: Any, written: str) -> None:
    """Every level is one of the four, whatever it is called; an unknown one is INFO."""
    record = log(level, "m")

    assert (record["lvl"], record["data"]) == (written, {"message": "m"})


@pytest.mark.parametrize(
    ("error", "written"),
    [
        ("boom", {"message": "boom"}),
        ({"type": "T", "message": "m", "code": "c"}, {"type": "T", "message": "m", "code": "c"}),
        (ValueError("bad"), {"type": "ValueError", "message": "bad"}),
        (5, {"message": "5"}),
    ],
)
def test_an_error_is_an_object(log: Log, error: Any, written: dict[str, Any]) -> None:
    """Texts, exceptions and dicts all become an error with a message, beside the payload."""
    record = log("INFO", event="x", error=error)

    assert record["error"] == written
    assert record["data"] == {}


def test_an_event_must_be_text(log: Log) -> None:
    """A record without an event name cannot be, and the error says whose fault it is."""
    with pytest.raises(TypeError, match="log: event must be a string, got int"):
        log("INFO", "m", event=5)


def test_without_a_sink_nothing_happens() -> None:
    """No sink: processors do not run and nothing is built, not even the text of what is logged."""
    kernel = ModuleCoordinator()
    done: list[str] = []

    class Watched:
        def __str__(self) -> str:
            done.append("built")
            return "text"

    def processor(record: Record) -> Record:
        done.append("ran")
        return record

    kernel.add_log_processor(processor)
    kernel.log("INFO", "m", watched=Watched())
    assert done == []

    kernel.add_log_sink(lambda record: None)
    kernel.log("INFO", "m", watched=Watched())
    assert done == ["built", "ran"]


def test_processors_run_in_order_before_the_sinks(log: Log) -> None:
    """Each processor sees what the one before returned, and the sink what the last returned."""

    def mask(record: Record) -> Record:
        record["data"]["key"] = "***"
        return record

    def enrich(record: Record) -> Record:
        return {**record, "redaction": {"seen": record["data"]["key"]}}

    log.kernel.add_log_processor(mask)
    log.kernel.add_log_processor(enrich)
    payload = {"key": "sk-secret"}
    record = log("INFO", "m", **payload)

    assert record["data"]["key"] == "***"
    assert record["redaction"] == {"seen": "***"}
    assert payload == {"key": "sk-secret"}


def test_a_processor_may_drop_a_record(log: Log) -> None:
    """None ends the record's way: no later processor and no sink sees it."""
    seen: list[Record] = []
    log.kernel.add_log_processor(lambda record: None)
    log.kernel.add_log_processor(lambda record: seen.append(record) or record)  # type: ignore[func-returns-value]
    log.kernel.log("INFO", "m")

    assert (seen, log.records) == ([], [])


@pytest.mark.parametrize("fault", ["raises", "lies", "async"])
def test_a_failing_processor_drops_the_record(log: Log, caplog: pytest.LogCaptureFixture, fault: str) -> None:
    """An unredacted line is worse than a missing one; the fault is reported once."""

    async def asynchronous(record: Record) -> Record:
        return record

    def processor(record: Record) -> Any:
        if fault == "raises":
            raise ValueError("no redaction")
        return "text" if fault == "lies" else asynchronous(record)

    log.kernel.add_log_processor(processor)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            log.kernel.log("INFO", "m")

    assert log.records == []
    assert caplog.text.count("Log processor") == 1


@pytest.mark.parametrize("fault", ["raises", "async"])
def test_a_raising_sink_is_isolated_and_reported_once(log: Log, caplog: pytest.LogCaptureFixture, fault: str) -> None:
    """The other sinks get every record, the caller no error, and the report comes once."""

    async def asynchronous(record: Record) -> None:
        raise AssertionError("nobody awaits this")

    def sink(record: Record) -> Any:
        if fault == "async":
            return asynchronous(record)
        raise OSError("disk full")

    after: list[Record] = []
    log.kernel.add_log_sink(sink)
    log.kernel.add_log_sink(after.append)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            log.kernel.log("INFO", "m")

    assert (len(log.records), len(after)) == (3, 3)
    assert caplog.text.count("Log sink") == 1


def test_a_sink_that_logs_ends(log: Log) -> None:
    """A sink that logs about logging fails like any other sink, instead of the program."""
    log.kernel.add_log_sink(lambda record: log.kernel.log("INFO", "again"))
    log.kernel.log("INFO", "first")

    assert log.records[0]["data"]["message"] == "first"


@pytest.mark.parametrize("fatal", [KeyboardInterrupt, SystemExit])
def test_interrupts_of_a_sink_propagate(log: Log, fatal: type[BaseException]) -> None:
    """Nothing holds back a KeyboardInterrupt or SystemExit."""

    def sink(record: Record) -> None:
        raise fatal

    log.kernel.add_log_sink(sink)
    with pytest.raises(fatal):
        log.kernel.log("INFO", "m")
