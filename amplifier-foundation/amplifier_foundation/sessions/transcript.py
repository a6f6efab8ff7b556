"""Keep the conversation on disk: one message per line, appended as it grows, without secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LEFT_OUT = ("system", "developer")


class Transcript:
    """Append the messages of one session to its `transcript.jsonl`."""

    def __init__(self, path: Path, scrub: Callable[[Any], Any]) -> None:
        """Write to `path`; `scrub` makes the copy that is written."""
        self._path = path
        self._scrub = scrub
        self._written = 0

    def update(self, messages: list[dict[str, Any]]) -> None:
        """Append what is new since the last update; a history that was replaced by a shorter one is written anew."""
        kept = [message for message in messages if message.get("role") not in _LEFT_OUT]
        if len(kept) < self._written:
            self._written = 0
            self._path.write_bytes(b"")
        lines = [self._line(message) for message in kept[self._written :]]
        if not lines:
            return
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, b"".join(lines))
        finally:
            os.close(descriptor)
        self._written = len(kept)

    def _line(self, message: dict[str, Any]) -> bytes:
        text = json.dumps(self._scrub(_without_none(message)), ensure_ascii=False, default=str)
        return text.encode("utf-8", "replace") + b"\n"


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value if item is not None]
    return value
