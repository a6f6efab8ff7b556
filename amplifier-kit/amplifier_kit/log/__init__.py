"""The session log: `SessionLog` writes it, `read_log` reads it, `verify_log` checks it.

One JSON object per line, schema `amplifier.log` 1.0.0 (`schema()`), in `events.jsonl` of a session's folder; large
values lie in `blobs/` beside it, under the hash of their content. Only `prune_rotated` and `prune_blobs` ever delete.
"""

from amplifier_kit.log.blobs import LIMIT, BlobError, BlobStore
from amplifier_kit.log.line import LogLine
from amplifier_kit.log.location import TEMPLATE, amplifier_home, log_path, project_slug
from amplifier_kit.log.lock import SessionLogBusy
from amplifier_kit.log.reader import LogReader, TornLine, read_log
from amplifier_kit.log.retention import Pruned, prune_blobs, prune_rotated
from amplifier_kit.log.schema import schema, schema_path
from amplifier_kit.log.verify import LogReport, Problem, verify_log
from amplifier_kit.log.writer import MAX_BYTES, SessionLog

__all__ = [
    "LIMIT",
    "MAX_BYTES",
    "TEMPLATE",
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
    "amplifier_home",
    "log_path",
    "project_slug",
    "prune_blobs",
    "prune_rotated",
    "read_log",
    "schema",
    "schema_path",
    "verify_log",
]
