"""What a universe says of itself: a JSONL log, progress for whoever listens, and how long things took."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from amplifier_kit.guard.private_files import append, open_private

#: What stands in place of a secret's value.
MASK: Final = "[secret]"
#: Shorter values would be found in innocent text.
_SHORTEST_SECRET: Final = 6

Listener = Callable[[str], None]


class Recorder:
    """The log of one universe; secrets that it knows never get into it, nor to listeners."""

    def __init__(self, path: Path, secrets: Iterable[str] = ()) -> None:
        self.path = path
        #: How long each named part took, in seconds; a part done twice counts together.
        self.timings: dict[str, float] = {}
        #: Every progress text so far, for listeners that come late.
        self.told: list[str] = []
        self._secrets = sorted({value for value in secrets if len(value) >= _SHORTEST_SECRET}, key=len, reverse=True)
        self._listeners: list[Listener] = []

    def mask(self, text: str) -> str:
        """Return a text without the values of secrets."""
        for value in self._secrets:
            text = text.replace(value, MASK)
        return text

    def event(self, event: str, **fields: Any) -> None:
        """Append one line to the log: `{"ts", "event", …}`; what is no JSON is written as text."""
        line = {"ts": _now(), "event": event, **_masked(fields, self.mask)}
        try:
            # One write per line: a reader, or a crash, finds whole lines.
            descriptor = open_private(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            try:
                append(descriptor, json.dumps(line, default=str).encode("ascii") + b"\n")
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            pass  # the universe is being removed, its log with it

    def progress(self, text: str) -> None:
        """Log what is being done now and tell it to everybody who listens."""
        text = self.mask(text)
        self.event("progress", text=text)
        self.told.append(text)
        for listener in tuple(self._listeners):
            listener(text)

    @contextmanager
    def listening(self, listener: Listener, *, from_start: bool = False) -> Iterator[None]:
        """Pass progress to a listener while the block runs, with all that was told before it when asked for."""
        for text in self.told if from_start else ():
            listener(text)
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Measure a block, and log its time and whether it was left by an exception."""
        start = time.monotonic()
        is_ok = False
        try:
            yield
            is_ok = True
        finally:
            seconds = round(time.monotonic() - start, 4)
            self.timings[part] = round(self.timings.get(part, 0.0) + seconds, 4)
            self.event("timing", part=part, seconds=seconds, ok=is_ok)


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {mask(str(key)): _masked(item, mask) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_masked(item, mask) for item in value]
    return value if isinstance(value, (int, float, bool, type(None))) else mask(str(value))
