"""Read a file from an untrusted place without blocking on a pipe or reading a device forever."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

#: No configuration that a person has written is larger.
LARGEST: Final = 16 << 20
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def read_regular(path: str | os.PathLike[str], limit: int = LARGEST, *, follow: bool = True) -> bytes:
    """Return the content of a file.

    Raises OSError if it is not a regular file or has more than `limit` bytes, and without `follow` if it is a link.
    """
    number = os.open(path, _READ) if follow else os.open(path, _READ | os.O_NOFOLLOW)
    try:
        mode = os.fstat(number).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        with open(number, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(number)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", os.fspath(path))
    return data
