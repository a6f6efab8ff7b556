"""Build log records of schema v1, run them through processors and hand them to sinks; the kernel itself does no I/O."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from amplifier_core._clock import timestamp as now
from amplifier_core._isolation import clean, copier, describe

logger = logging.getLogger(__name__)

Record = dict[str, Any]
Processor = Callable[[Record], Record | None]
Sink = Callable[[Record], Any]

SCHEMA = {"name": "amplifier.log", "ver": "1.0.0"}
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_ALIASES = {"WARN": "WARNING", "CRITICAL": "ERROR", "FATAL": "ERROR", "TRACE": "DEBUG"}
#: Keys that schema v1 has on the top level, in its order; everything else belongs to `data`.
_IDS = ("session_id", "parent_id", "trace_id", "turn_id", "span_id", "parent_span_id", "request_id")
_FACTS = ("component", "module", "status", "duration_ms")


class LogPipe:
    """Take records through every processor, then to every sink."""

    def __init__(self) -> None:
        self.processors: list[Processor] = []
        self.sinks: list[Sink] = []
        self._reported: set[int] = set()

    def write(self, record: Record) -> None:
        """Process and deliver one record.

        A failing processor drops the record (an unredacted line is worse than a missing one), a failing sink loses it
        alone; either is reported once.
        """
        processed: Record | None = record
        for processor in list(self.processors):
            try:
                processed = processor(record)
            except Exception as error:
                self._report(processor, "processor", error)
                return
            if processed is None:
                return
            record = processed
        fresh = copier(clean(record))
        for sink in list(self.sinks):
            try:
                sink(fresh())
            except Exception as error:
                self._report(sink, "sink", error)

    def _report(self, culprit: object, what: str, error: Exception) -> None:
        if id(culprit) not in self._reported:
            self._reported.add(id(culprit))
            logger.error("Log %s %r failed (reported once): %s", what, culprit, describe(error), exc_info=error)


def build_record(level: str | int, message: str, event: str, identity: dict[str, Any], data: dict[str, Any]) -> Record:
    """Return one record of schema v1, its keys in the schema's order.

    Ids and facts found in `data` move to the top level; `identity` fills the ids that `data` does not give.
    """
    rest = dict(data)
    error = rest.pop("error", None)
    timestamp = rest.pop("timestamp", None)
    given_level = rest.pop("lvl", None)
    ids = {name: rest.pop(name, None) or identity.get(name) for name in _IDS}
    facts = {name: rest.pop(name, None) for name in _FACTS}
    failed = facts["status"] == "error" or error is not None or "error" in event
    record: Record = {
        "ts": timestamp if isinstance(timestamp, str) else now(),
        "lvl": _level(given_level or level, failed),
        "schema": dict(SCHEMA),
        "event": event,
    }
    record.update((name, value) for name, value in {**ids, **facts}.items() if value is not None)
    if message:
        rest = {"message": message, **rest}
    record["data"] = rest
    if error is not None:
        record["error"] = error if isinstance(error, dict) else {"message": describe(error)}
    cleaned: Record = clean(record)
    return cleaned


def _level(level: str | int, failed: bool) -> str:
    name = logging.getLevelName(level) if isinstance(level, int) else str(level)
    name = _ALIASES.get(name.upper(), name.upper())
    if name not in _LEVELS:
        name = "INFO"
    return "ERROR" if failed and name != "DEBUG" else name
