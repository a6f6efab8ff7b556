"""Build log records of schema v1, run them through processors and hand them to sinks; the kernel itself does no I/O."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from amplifier_core.bounded_call import FAULTS, require_plain
from amplifier_core.data import clean, copier, describe, isolate, reason
from amplifier_core.trace import timestamp as now

logger = logging.getLogger(__name__)

Record = dict[str, Any]
Processor = Callable[[Record], Record | None]
Sink = Callable[[Record], Any]

SCHEMA = {"name": "amplifier.log", "ver": "1.0.0"}
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_ALIASES = {"WARN": "WARNING", "CRITICAL": "ERROR", "FATAL": "ERROR", "TRACE": "DEBUG"}
_IDS = ("session_id", "parent_id", "trace_id", "turn_id", "span_id", "parent_span_id", "request_id")
#: Keys that schema v1 has on the top level, in its order, and their types; everything else belongs to `data`.
_LIFTED: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys((*_IDS, "component", "module", "status"), str),
    "duration_ms": (int, float),
}
#: The same, with the keys that become something else on the top level.
_PLACES = {**_LIFTED, "error": object, "timestamp": object, "lvl": object}


class LogPipe:
    """Take records through every processor, then to every sink."""

    def __init__(self) -> None:
        self.processors: list[Processor] = []
        self.sinks: list[Sink] = []
        #: Processors and sinks that failed, by identity; kept alive, so that no other gets the same one.
        self._reported: dict[int, object] = {}

    def write(self, record: Record) -> None:
        """Process and deliver one record as `build_record` makes it, which is given away.

        A failing processor drops the record (an unredacted line is worse than a missing one), a failing sink loses it
        alone; either is reported once.
        """
        for processor in list(self.processors):
            try:
                processed = require_plain(processor(record))
                if processed is None:
                    return
                if not isinstance(processed, dict):
                    raise TypeError(f"it must return the record or None, not {type(processed).__name__}")
            except FAULTS as error:
                self._report(processor, "processor", error)
                return
            record = clean(processed)
        sinks = list(self.sinks)
        # The record is clean and private by now: only several sinks need to be kept apart.
        fresh = copier(record) if len(sinks) > 1 else lambda: record
        for sink in sinks:
            try:
                require_plain(sink(fresh()))
            except FAULTS as error:
                self._report(sink, "sink", error)

    def _report(self, culprit: object, what: str, error: BaseException) -> None:
        if id(culprit) not in self._reported:
            self._reported[id(culprit)] = culprit
            logger.error("Log %s %r failed (reported once): %s", what, culprit, reason(error), exc_info=error)


def build_record(level: str | int, message: str, event: str, identity: dict[str, Any], data: dict[str, Any]) -> Record:
    """Return one record of schema v1, its keys in the schema's order.

    Ids and facts found in `data` move to the top level when they are of the schema's type; `identity` fills the ids
    that `data` does not give. Raises TypeError for an event that is not a string.
    """
    if not isinstance(event, str):
        raise TypeError(f"log: event must be a string, got {type(event).__name__}")
    rest: Record = {"message": message} if message else {}
    found: Record = {}
    for name, value in data.items():
        kind = _PLACES.get(name)
        if kind is None:
            rest[name] = value
        elif kind is object or (isinstance(value, kind) and not isinstance(value, bool)):
            found[name] = value
        elif value is not None:
            rest[name] = value  # the schema wants another type on the top level: it stays in `data`
    error, timestamp = found.get("error"), found.get("timestamp")
    failed = error is not None or found.get("status") == "error"
    record: Record = {
        "ts": clean(timestamp) if isinstance(timestamp, str) else now(),
        "lvl": _level(found.get("lvl") or level, failed),
        "schema": dict(SCHEMA),
        "event": clean(event),
    }
    for name in _LIFTED:
        value = found.get(name)
        if value is None or value == "":
            value = identity.get(name)
        if value is not None:
            record[name] = value if type(value) is str and value.isascii() else clean(value)
    whole, copy = isolate(rest, 1)
    record["data"] = copy() if whole is None else whole
    if error is not None:
        record["error"] = clean(_error(error))
    return record


def _error(error: Any) -> Any:
    if isinstance(error, dict):
        return error
    if isinstance(error, BaseException):
        return {"type": type(error).__name__, "message": describe(error)}
    return {"message": describe(error)}


def _level(level: str | int, failed: bool) -> str:
    """Return the schema's name of a level, INFO for an unknown one; a failure is an ERROR unless it is DEBUG."""
    if level == "INFO":
        return "ERROR" if failed else "INFO"
    name = logging.getLevelName(level) if isinstance(level, int) else str(level)
    name = _ALIASES.get(name.upper(), name.upper())
    if name not in _LEVELS:
        name = "INFO"
    return "ERROR" if failed and name != "DEBUG" else name
