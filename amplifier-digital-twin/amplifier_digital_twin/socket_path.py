"""The address of a socket in the file system, which the system cuts at 108 bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def with_short_path(path: Path, use: Callable[[str], None]) -> None:
    """Call `use` with an address of a socket that fits in the system's 108 bytes, however long the path is.

    The folder is opened, and the socket named relative to it. Raises OSError.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
