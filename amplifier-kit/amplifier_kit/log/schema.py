"""Give the published JSON Schema of a log line."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def schema_path() -> Path:
    """Return the file that holds the schema (JSON Schema 2020-12)."""
    return Path(__file__).with_name("schema-v1.json")


def schema() -> dict[str, Any]:
    """Return the schema of one line of version 1."""
    import json

    read: dict[str, Any] = json.loads(schema_path().read_text(encoding="utf-8"))
    return read
