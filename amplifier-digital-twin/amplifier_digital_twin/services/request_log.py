"""The log of every request that a universe made. Standard library only: the proxy's own environment loads it too."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

#: A hostile universe must not fill the disk of the host.
MAX_BYTES = 64 * 1024**2


class RequestLog:
    """Appends one JSON object per request; several processes may write to the same file.

    Keys: `time` (seconds since the epoch), `service` (`index`, `git`, `proxy`), `allowed`, `host`, `what` (a path or
    URL without credentials and query), `status` (of the answer; 0 for none), `reason`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self, service: str, host: str, what: str, status: int, *, allowed: bool, reason: str = "") -> None:
        """Append a request; a full log gets a last line that says so."""
        entry = {"time": round(time.time(), 3), "service": service, "allowed": allowed, "host": host[:300]}
        entry |= {"what": what[:2000], "status": status, "reason": reason}
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(handle, "ab", buffering=0) as file:
            line, size = json.dumps(entry), os.fstat(handle).st_size
            if size < MAX_BYTES <= size + len(line) + 1:
                line = json.dumps({**entry, "what": "", "reason": "the log is full: nothing more is recorded"})
                line = line.ljust(MAX_BYTES - size)
            if size < MAX_BYTES:
                file.write(line.encode() + b"\n")
