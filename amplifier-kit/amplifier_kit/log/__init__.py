"""The session log: `SessionLog` writes it, `read_log` reads it, `verify_log` checks it.

One JSON object per line, schema `amplifier.log` 1.0.0 (`schema()`), in `events.jsonl` of a session's folder; large
values are in `blobs/` beside it, named by the hash of their content.
Names are imported on first use, since a program that reads a log needs no writer.

`record` makes a line, `references` keeps it short with `blobs`, `files` knows the files and locks them, and `open_work`
finds the ends that are missing. The writer masks every record (`SessionLog._redact`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_kit.log.blobs import BlobError, BlobStore
    from amplifier_kit.log.files import SessionLogBusy
    from amplifier_kit.log.reader import LogLine, LogReader, TornLine, read_log
    from amplifier_kit.log.record import schema, schema_path
    from amplifier_kit.log.verify import verify_log
    from amplifier_kit.log.writer import SessionLog

_MODULES = {
    "blobs": ("BlobError", "BlobStore"),
    "files": ("SessionLogBusy",),
    "reader": ("LogLine", "LogReader", "TornLine", "read_log"),
    "record": ("schema", "schema_path"),
    "verify": ("verify_log",),
    "writer": ("SessionLog",),
}

__all__ = [
    "BlobError",
    "BlobStore",
    "LogLine",
    "LogReader",
    "SessionLog",
    "SessionLogBusy",
    "TornLine",
    "read_log",
    "schema",
    "schema_path",
    "verify_log",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
