"""Read files that somebody else may have put there: nobody waits for a pipe or a terminal in the place of one."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_plain(path: str | Path, limit: int) -> bytes:
    """Return the first `limit` bytes of a file; raises OSError, and ValueError for what is no file."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ValueError("it is no plain file")
        return file.read(limit)
