"""Write files so that a reader finds the old one or the new one, and two processes do not undo each other's work."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from amplifier_foundation.errors import FoundationError

#: How long a writer waits for another one, in seconds.
LOCK_TIMEOUT = 30.0
_LOCK_POLL = 0.01


class FileBusyError(FoundationError):
    """Another process holds the lock of a file for too long."""

    code = "file_busy"


def replace_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Put `content` in place of the file, readable by its owner alone; raises OSError and leaves nothing behind."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{time.monotonic_ns():x}.tmp")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(fresh, path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def rewrite_file(target: Path, content: bytes) -> None:
    """Replace a file and keep its mode; a new one is for its owner alone. Raises OSError."""
    try:
        mode = target.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o600
    replace_file(target, content, mode=mode)
    if target.stat().st_mode & 0o777 != mode:  # the process's umask took something away
        target.chmod(mode)


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, each for its owner alone; raises OSError."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:  # something that is no folder
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error


@contextmanager
def locked(path: Path, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold the lock file `path` while the block runs; a process that dies lets go of it.

    Not for long in one event loop: waiting blocks the thread. Raises FileBusyError after `timeout` seconds, and OSError
    when the lock file cannot be made.
    """
    import fcntl

    make_private(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise FileBusyError(
                        f"{path}: another process has held this lock for {timeout:g} s: wait for it, or end it"
                    ) from None
                time.sleep(_LOCK_POLL)
        yield
    finally:
        os.close(descriptor)
