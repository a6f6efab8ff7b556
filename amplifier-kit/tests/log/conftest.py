"""Make records and read logs back; the tests of every part of the log share these fixtures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeRecord = Callable[..., dict[str, Any]]
ReadLines = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def record() -> MakeRecord:
    """Return a function that makes a record as `coordinator.log` would."""

    def make(event: str = "tool:pre", **data: Any) -> dict[str, Any]:
        return {
            "ts": "2026-01-01T12:00:00.000000+00:00",
            "lvl": "INFO",
            "schema": {"name": "amplifier.log", "ver": "1.0.0"},
            "event": event,
            "session_id": "5f0c6a3e-0000-4000-8000-000000000000",
            "data": data,
        }

    return make


@pytest.fixture
def lines_of() -> ReadLines:
    """Return a function that parses every line of one file with the standard library."""

    def read(folder: Path, name: str = "events.jsonl") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]

    return read


@pytest.fixture
def messages() -> Callable[..., list[dict[str, Any]]]:
    """Return a function that makes a history of `count` messages, about 200 bytes each."""

    def make(count: int, start: int = 0) -> list[dict[str, Any]]:
        return [
            {"role": "assistant" if index % 2 else "user", "content": f"message {index} " + "word " * 30}
            for index in range(start, start + count)
        ]

    return make
