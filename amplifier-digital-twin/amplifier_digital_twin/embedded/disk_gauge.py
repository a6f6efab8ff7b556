"""Measure what a universe has written: prints the bytes below a folder and those free beside it, a line for each look.

Run as a script on the stage of the universe's id map (`python -I -S disk_gauge.py FOLDER`), where no folder is closed
to it. It ends when stdin does. Links are not followed, and a file with several names counts once.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: Seconds between two looks; more when a look takes long, but never so long that much can be written meanwhile.
INTERVAL: Final = 1.0
_LONGEST_PAUSE: Final = 2.0
_SHARE: Final = 20
#: Said when something hides from being measured: more than any limit.
BEYOND: Final = 2**63
#: What an entry takes at least: a file without content still has a name and an inode, which run out too.
ENTRY: Final = 4096
#: How long a look may take, in seconds of processor and by the clock; a tree that takes longer hides what it holds.
_MAX_WORK: Final = 10.0
_MAX_SECONDS: Final = 30.0


class Patience:
    """The end of a look that takes too long."""

    def __init__(self, work: float = _MAX_WORK, seconds: float = _MAX_SECONDS) -> None:
        self._work = time.process_time() + work
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raise TimeoutError when it is over."""
        if time.process_time() > self._work or time.monotonic() > self._end:
            raise TimeoutError("the look takes too long")


def measure(folder: str, patience: Patience | None = None) -> int:
    """Return the bytes that all files below a folder take on disk; what vanishes meanwhile counts nothing.

    Raises OSError for what cannot be looked into, such as folders nested deeper than descriptors can be had, and
    TimeoutError, which is one, when that takes too long.
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
                if patience is not None:
                    patience.check()
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
            total += max(ENTRY, status.st_blocks * 512)
    return total


def take_all_descriptors() -> None:
    """Let this process open as many as it may: every folder on the way down needs one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def rest(start: float) -> bool:
    """Wait after a look that began then; tell whether another one is wanted, and not when stdin has ended."""
    pause = min(_LONGEST_PAUSE, max(INTERVAL, (time.monotonic() - start) * _SHARE))
    return not (select.select([0], [], [], pause)[0] and not os.read(0, 1))


def main() -> None:
    """Look, print, wait, until stdin ends."""
    take_all_descriptors()
    is_wanted = True
    while is_wanted:
        start = time.monotonic()
        try:
            written = measure(sys.argv[1], Patience())
        except OSError:
            written = BEYOND
        system = os.statvfs(sys.argv[1])
        sys.stdout.write(f"{written} {system.f_bavail * system.f_frsize}\n")
        sys.stdout.flush()
        is_wanted = rest(start)


if __name__ == "__main__":
    main()
