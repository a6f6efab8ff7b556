"""The session log: `writer.SessionLog` writes it, `reader.read_log` reads it, `verify.verify_log` checks it.

One JSON object per line, schema `amplifier.log` 1.0.0 (`record.schema()`), in `events.jsonl` of a session's folder;
large values are in `blobs/` beside it, named by the hash of their content.

`record` makes a line, `references` keeps it short with `blobs`, `files` knows the files and locks them, and `open_work`
finds the ends that are missing. The writer masks every record (`SessionLog._redact`).
"""
