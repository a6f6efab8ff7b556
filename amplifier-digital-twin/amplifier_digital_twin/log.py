"""The log of a universe: one JSON line per event, progress for people, and how long each part took."""

from __future__ import annotations

import json
import os
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from amplifier_kit.guard.private_files import append, masked, open_private

#: What stands in place of a secret's value.
MASK: Final = "[secret]"
#: Shorter values would be found in innocent text.
SHORTEST_SECRET: Final = 6


class Secrets:
    """What is written down nowhere: the values of a profile's secrets, in every spelling, and what looks like one."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        found: set[bytes] = set()
        for value in values:
            if len(value) >= SHORTEST_SECRET:
                raw = value.encode("utf-8", "surrogateescape")
                found |= {raw, b64encode(raw), quote(raw, safe="").encode("ascii")}
                texts = (json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))
                found |= {text.encode("utf-8", "replace") for text in texts}
        self._needles = sorted(found, key=len, reverse=True)

    def mask(self, content: bytes) -> bytes:
        """Return content without secrets."""
        for needle in self._needles:
            content = content.replace(needle, MASK.encode("utf-8"))
        return masked(content)

    def masked(self, value: Any) -> Any:
        """Return JSON without secrets in its texts and keys."""
        if isinstance(value, str):
            return self.mask(value.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
        if isinstance(value, dict):
            return {self.masked(str(key)): self.masked(item) for key, item in value.items()}
        return [self.masked(item) for item in value] if isinstance(value, list | tuple) else value


class Log:
    """Writes events to a file; the values of secrets get into neither the file nor the progress."""

    def __init__(self, path: Path, secrets: Iterable[str] = (), listener: Callable[[str], None] | None = None) -> None:
        self.path = path
        #: Seconds of each named part.
        self.timings: dict[str, float] = {}
        self.secrets = Secrets(secrets)
        self._listener = listener

    def event(self, event: str, **fields: Any) -> None:
        """Append one line: `{"ts", "event", ...}`."""
        from datetime import UTC, datetime

        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"ts": now, "event": event, **self.secrets.masked(fields)}
        try:
            descriptor = open_private(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            try:
                append(descriptor, json.dumps(line, default=str).encode("ascii") + b"\n")
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            pass  # the universe is being removed, its log with it

    def progress(self, text: str) -> None:
        """Report what is being done now."""
        text = self.secrets.masked(text)
        self.event("progress", text=text)
        if self._listener is not None:
            self._listener(text)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Measure a block, and log its time."""
        begin = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - begin
            self.timings[part] = round(self.timings.get(part, 0.0) + seconds, 3)
            self.event("timing", part=part, seconds=round(seconds, 3))
