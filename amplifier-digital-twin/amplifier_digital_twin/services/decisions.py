"""The log of what was let out, sent elsewhere or refused: one line each, and nothing that could be a secret."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from amplifier_digital_twin.errors import TwinError
from amplifier_kit.guard.private_files import masked, open_private

Verdict = Literal["allow", "refuse", "rewrite", "error"]

_LONGEST: Final = 2048
#: No name is longer, and no honest universe asks for more of them.
_LONGEST_HOST: Final = 253
_MOST_HOSTS: Final = 1000
#: More than any honest universe writes: a program that asks in a loop must not fill the host's disk.
MAX_BYTES: Final = 64 * 1024 * 1024


class Decisions:
    """Appends to one file and remembers which hosts were refused.

    What cannot be written down must not happen: `record` raises TwinError when the file cannot be written or is full,
    and the services refuse what they were asked for.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path: Final = path
        self._max_bytes = max_bytes
        self._refused: set[str] = set()

    def record(
        self, service: str, verdict: Verdict, host: str, port: int, method: str = "", path: str = "", reason: str = ""
    ) -> None:
        """Append one decision; whatever follows `?` or `#` in the path is left out."""
        line = {
            "ts": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "service": service,
            "verdict": verdict,
            "host": host[:_LONGEST],
            "port": port,
            "method": method[:_LONGEST],
            "path": path.partition("?")[0].partition("#")[0][:_LONGEST],
            "reason": reason[:_LONGEST],
        }
        self._append(masked(json.dumps(line, ensure_ascii=True).encode() + b"\n"))
        if verdict == "refuse" and host and len(self._refused) < _MOST_HOSTS:
            self._refused.add(host[:_LONGEST_HOST])

    def _append(self, line: bytes) -> None:
        # Opened each time: the file may be read, copied or moved away as evidence at any moment.
        try:
            file = open_private(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            try:
                if os.fstat(file).st_size + len(line) > self._max_bytes:
                    raise _unwritable(self.path, f"it would be larger than {self._max_bytes:,} bytes")
                if os.write(file, line) != len(line):
                    raise _unwritable(self.path, "the disk is full")
            finally:
                os.close(file)
        except OSError as error:
            raise _unwritable(self.path, error.strerror or str(error)) from error

    def refused_hosts(self) -> frozenset[str]:
        """Return every host that was refused so far."""
        return frozenset(self._refused)


def _unwritable(path: Path, why: str) -> TwinError:
    return TwinError(
        "decisions_unwritable",
        f"{path}: the log of network decisions cannot be written: {why}",
        "make room, or find out what in the universe asks for so much, and launch it again",
    )
