"""Keep the conversation on disk: one message per line, appended as it grows, without secrets."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_foundation.files import replace_file

_LEFT_OUT = ("system", "developer")


class Transcript:
    """Append the messages of one session to its `transcript.jsonl`."""

    def __init__(self, path: Path, scrub: Callable[[Any], Any]) -> None:
        """Write to `path`; `scrub` makes the copy that is written."""
        self._path = path
        self._scrub = scrub
        self._written = 0
        #: The last message that was written, by which a history that was replaced is told from one that grew.
        self._last: dict[str, Any] | None = None

    def update(self, messages: list[dict[str, Any]]) -> None:
        """Append what is new since the last update; a history that was replaced by another is written anew.

        Raises OSError when that fails; the file then holds what it held before, and the next update tries again.
        """
        kept = [message for message in messages if message.get("role") not in _LEFT_OUT]
        if self._has_grown(kept):
            lines = b"".join(map(self._line, kept[self._written :]))
            if lines:
                self._append(lines)
        else:
            replace_file(self._path, b"".join(map(self._line, kept)))
        self._written = len(kept)
        self._last = dict(kept[-1]) if kept else None

    def _has_grown(self, kept: list[dict[str, Any]]) -> bool:
        if not self._written:
            return True
        return len(kept) >= self._written and kept[self._written - 1] == self._last

    def _append(self, lines: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            try:
                written = os.write(descriptor, lines)
                if written < len(lines):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            except OSError:
                os.ftruncate(descriptor, size)  # half a message would be glued to the next one
                raise
        finally:
            os.close(descriptor)

    def _line(self, message: dict[str, Any]) -> bytes:
        text = json.dumps(self._scrub(_without_none(message)), ensure_ascii=False, default=str)
        return text.encode("utf-8", "replace") + b"\n"


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value if item is not None]
    return value
