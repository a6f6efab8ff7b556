"""Measure what a universe has written: prints the bytes below a folder, one line for each look.

Run as a script on the stage of the universe's id map (`python -I -S disk_gauge.py FOLDER`), where no folder is closed
to it. It ends when stdin does. Links are not followed, and a file with several names counts once.
"""

from __future__ import annotations

import os
import select
import sys
import time
from typing import Final

#: Seconds between two looks; more when a look takes long, so that looking costs a twentieth of one processor.
INTERVAL: Final = 1.0
_SHARE: Final = 20


def measure(folder: str) -> int:
    """Return the bytes that all files below a folder take on disk; what vanishes meanwhile counts nothing."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for _, folders, files, descriptor in os.fwalk(folder, follow_symlinks=False, onerror=lambda _: None):
        for name in (*folders, *files):
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:
                continue
            if status.st_nlink > 1:
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
            total += status.st_blocks * 512
    return total


def main() -> None:
    """Look, print, wait, until stdin ends."""
    while True:
        start = time.monotonic()
        sys.stdout.write(f"{measure(sys.argv[1])}\n")
        sys.stdout.flush()
        pause = max(INTERVAL, (time.monotonic() - start) * _SHARE)
        if select.select([0], [], [], pause)[0] and not os.read(0, 1):
            return


if __name__ == "__main__":
    main()
