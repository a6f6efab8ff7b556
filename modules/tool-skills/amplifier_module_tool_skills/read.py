"""Read the beginning of a file: of a file only, and of one that lies where it may."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from amplifier_kit.struct import FrozenStruct

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class ReadingError(OSError):
    """Say why a file is not read."""


class Content(FrozenStruct):
    """What was read, and how much there is."""

    head: bytes
    size: int


def read_head(path: Path, limit: int, within: Sequence[Path] | None = None) -> Content:
    """Return the first `limit` bytes of a file.

    With `within`, the file must lie in one of these folders, links followed; the check is made on the open file,
    so swapping a link meanwhile gains nothing. Raises ReadingError otherwise, for anything but a regular file (a pipe
    would never end), and for what cannot be opened.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        raise ReadingError(f"cannot be read: {error.strerror or error}") from error
    try:
        found = os.fstat(descriptor)
        # Before a file object is made of it: there is none of a folder.
        if not stat.S_ISREG(found.st_mode):
            raise ReadingError("is not a regular file")
        if within is not None:
            _check_place(path, found, within)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return Content(file.read(limit), found.st_size)
    except ReadingError:
        raise
    except OSError as error:
        raise ReadingError(f"cannot be read: {error.strerror or error}") from error
    finally:
        os.close(descriptor)


def _check_place(path: Path, opened: os.stat_result, within: Sequence[Path]) -> None:
    """Raise ReadingError unless what was opened is what lies at the real path, and that is inside."""
    real = Path(os.path.realpath(path))
    try:
        is_same = os.path.samestat(os.stat(real, follow_symlinks=False), opened)
    except OSError:
        is_same = False
    if not is_same:
        raise ReadingError("changed while it was read")
    if not any(real.is_relative_to(folder) for folder in within):
        raise ReadingError("is a link that leads out of the project: it is not followed")
