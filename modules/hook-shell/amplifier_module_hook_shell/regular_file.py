"""Read files of untrusted origin without hanging on a pipe or a terminal in place of one."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_plain(path: str | Path, limit: int) -> bytes:
    """Return the first `limit` bytes of a file; raise OSError, and ValueError when it is not a regular file."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ValueError("it is not a regular file")
        return file.read(limit)
