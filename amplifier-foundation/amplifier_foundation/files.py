"""Write files so that a reader finds the old one or the new one, and two processes do not undo each other's work."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from amplifier_foundation.errors import FoundationError
from amplifier_kit.guard.private_files import make_private, replace_file, replace_unmasked

__all__ = ["FileBusyError", "locked", "make_private", "replace_file", "replace_unmasked", "rewrite_file"]

#: How long a writer waits for another one, in seconds.
LOCK_TIMEOUT = 30.0
_LOCK_POLL = 0.01


class FileBusyError(FoundationError):
    """Another process holds the lock of a file for too long."""

    code = "file_busy"


def rewrite_file(target: Path, content: bytes) -> None:
    """Replace a file of the user's own, as it is, and keep its mode; a new one is for its owner alone. Raises OSError.

    Its content is not masked: callers make sure that no secret is added.
    """
    try:
        mode = target.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o600
    replace_unmasked(target, content, mode=mode)
    if target.stat().st_mode & 0o777 != mode:  # the process's umask took something away
        target.chmod(mode)


@contextmanager
def locked(path: Path, timeout: float = LOCK_TIMEOUT, *, make_folder: bool = True) -> Iterator[None]:
    """Hold the lock file `path` while the block runs; a process that dies lets go of it.

    Not for long in one event loop: waiting blocks the thread. Raises FileBusyError after `timeout` seconds, and OSError
    when the lock file cannot be made: also when its folder is missing, if it is not to be made.
    """
    import fcntl

    if make_folder:
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
