"""Open regular files only, and read at most as many bytes as requested."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO, Final, NamedTuple

from amplifier_kit.guard.files.place import FileError, Place, Roots, as_file_error

#: Larger files are not read into memory as a whole.
LARGEST_TEXT: Final = 50 * 1024 * 1024
# Do not block on a pipe, or follow a link, that has just replaced the file.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


class Snapshot(NamedTuple):
    """The state of a place at one moment, to detect later changes by other processes."""

    status: os.stat_result | None

    def is_same(self, now: os.stat_result | None) -> bool:
        return _version(self.status) == _version(now)


def _version(status: os.stat_result | None) -> tuple[int, ...] | None:
    if status is None:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Content(NamedTuple):
    """The bytes of a file, and its state when they were read."""

    data: bytes
    snapshot: Snapshot


def open_file(place: Place, roots: Roots) -> BinaryIO:
    """Open a regular file that the roots allow to read; other kinds of files are refused without blocking.

    Where reading is confined to some folders, a file that has a second name (hard link) is refused: that name may lie
    outside of them.
    """
    named = place.status()
    _check_regular(place, named)
    with as_file_error(f"{place.named} cannot be read"):
        file = open(os.open(place.name, _READ, dir_fd=place.folder), "rb")  # noqa: SIM115 - given to the caller
    try:
        opened = os.fstat(file.fileno())
        _check_regular(place, opened)
        roots.check(place, "read")
        if roots.allowed is not None:
            _check_only_name(place, named, opened)
    except BaseException:
        file.close()
        raise
    return file


def read_content(place: Place, roots: Roots, largest: int = LARGEST_TEXT) -> Content:
    """Return the whole content of a regular file; raises FileError for one of more than `largest` bytes."""
    with open_file(place, roots) as file, as_file_error(f"{place.named} cannot be read"):
        snapshot = Snapshot(os.fstat(file.fileno()))
        data = file.read(largest + 1)
    if len(data) > largest:
        raise FileError(
            "too_large", f"{place.named} has more than {largest:,} bytes, too many to be changed as text; use a command"
        )
    return Content(data, snapshot)


def _check_regular(place: Place, status: os.stat_result | None) -> None:
    if status is None:
        raise FileError("not_found", f"{place.named} does not exist")
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        raise FileError("changed_meanwhile", f"{place.named} has just become a link; look at it again")
    if stat.S_ISDIR(mode):
        raise FileError("is_directory", f"{place.named} is a folder")
    if not stat.S_ISREG(mode):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise FileError("special_file", f"{place.named} is {kind}, not a regular file")


def _check_only_name(place: Place, named: os.stat_result | None, opened: os.stat_result) -> None:
    # The names may have been removed since: count the links that existed while the name did.
    if named is None or (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):
        raise FileError("changed_meanwhile", f"{place.named} was replaced just now; read it again")
    if max(named.st_nlink, opened.st_nlink) > 1:
        raise FileError(
            "hard_link",
            f"{place.named} has {named.st_nlink} names (hard links), and reading is confined to some folders: another "
            "name may lie outside of them. Copy the file, then read the copy",
        )
