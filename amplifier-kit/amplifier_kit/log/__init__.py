"""The session log: `SessionLog` writes it, `read_log` reads it, `verify_log` checks it.

One JSON object per line, schema `amplifier.log` 1.0.0 (`schema()`), in `events.jsonl` of a session's folder; large
values lie in `blobs/` beside it, under the hash of their content. Only `prune_rotated` and `prune_blobs` ever delete.
Names are imported when they are asked for: who only wants to know where a log lies does not pay for its writer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_kit.log.blobs import LIMIT, BlobError, BlobStore
    from amplifier_kit.log.lock import SessionLogBusy
    from amplifier_kit.log.reader import LogLine, LogReader, TornLine, read_log
    from amplifier_kit.log.record import schema, schema_path
    from amplifier_kit.log.retention import Pruned, prune_blobs, prune_rotated
    from amplifier_kit.log.verify import LogReport, Problem, verify_log
    from amplifier_kit.log.writer import MAX_BYTES, SessionLog

_HOMES = {
    "BlobError": "blobs",
    "BlobStore": "blobs",
    "LIMIT": "blobs",
    "LogLine": "reader",
    "LogReader": "reader",
    "LogReport": "verify",
    "MAX_BYTES": "writer",
    "Problem": "verify",
    "Pruned": "retention",
    "SessionLog": "writer",
    "SessionLogBusy": "lock",
    "TornLine": "reader",
    "prune_blobs": "retention",
    "prune_rotated": "retention",
    "read_log": "reader",
    "schema": "record",
    "schema_path": "record",
    "verify_log": "verify",
}

__all__ = [
    "LIMIT",
    "MAX_BYTES",
    "BlobError",
    "BlobStore",
    "LogLine",
    "LogReader",
    "LogReport",
    "Problem",
    "Pruned",
    "SessionLog",
    "SessionLogBusy",
    "TornLine",
    "prune_blobs",
    "prune_rotated",
    "read_log",
    "schema",
    "schema_path",
    "verify_log",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
