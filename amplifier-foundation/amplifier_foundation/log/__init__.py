"""The session log, as applications see it: everything of `amplifier_kit.log`."""

from amplifier_kit.log import (
    LogLine,
    LogReader,
    LogReport,
    SessionLog,
    SessionLogBusy,
    read_log,
    schema,
    schema_path,
    verify_log,
)

__all__ = [
    "LogLine",
    "LogReader",
    "LogReport",
    "SessionLog",
    "SessionLogBusy",
    "read_log",
    "schema",
    "schema_path",
    "verify_log",
]
