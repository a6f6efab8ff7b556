"""Measure what a universe has written: prints the bytes below a folder, one line for each look.

Run as a script on the stage of the universe's id map (`python -I -S disk_gauge.py FOLDER`), where no folder is closed
to it. It ends when stdin does. Links are not followed, and a file with several names counts once.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
import time
from typing import Final

#: Seconds between two looks; more when a look takes long, so that looking costs a twentieth of one processor.
INTERVAL: Final = 1.0
#: Said when something hides from being measured: more than any limit.
BEYOND: Final = 2**63
_SHARE: Final = 20


def measure(folder: str) -> int:
    """Return the bytes that all files below a folder take on disk; what vanishes meanwhile counts nothing.

    Raises OSError for what cannot be looked into, such as folders nested deeper than descriptors can be had.
    """
    total = 0
    seen: set[tuple[int, int]] = set()
    top = _open(folder, None)
    #: Open folders on the way down, and those in each that are still to be seen.
    way = [] if top is None else [(top, ["."])]
    try:
        while way:
            descriptor, names = way[-1]
            if not names:
                os.close(way.pop()[0])
            elif (inner := _open(names.pop(), descriptor)) is not None:
                way.append((inner, []))
                total += _look(inner, way[-1][1], seen)
    finally:
        for descriptor, _ in way:
            os.close(descriptor)
    return total


def _open(name: str, folder: int | None) -> int | None:
    """Open a folder; return nothing when it has gone, or something else has its name now."""
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return None
        raise


def _look(descriptor: int, folders: list[str], seen: set[tuple[int, int]]) -> int:
    """Return the bytes of what is in one folder, and add the names of the folders in it."""
    total = 0
    with os.scandir(descriptor) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(status.st_mode):
                folders.append(entry.name)
            elif status.st_nlink > 1:
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
            total += status.st_blocks * 512
    return total


def main() -> None:
    """Look, print, wait, until stdin ends."""
    while True:
        start = time.monotonic()
        try:
            written = measure(sys.argv[1])
        except OSError:
            written = BEYOND
        sys.stdout.write(f"{written}\n")
        sys.stdout.flush()
        pause = max(INTERVAL, (time.monotonic() - start) * _SHARE)
        if select.select([0], [], [], pause)[0] and not os.read(0, 1):
            return


if __name__ == "__main__":
    main()
