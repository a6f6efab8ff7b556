"""Say why a file could not be read or written, for people and models alike."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["FileError", "shown", "telling_of", "told"]

#: No system knows longer ones.
_LONGEST_PATH: Final = 4096

_CODES: Final = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "is_directory",
    errno.EEXIST: "already_exists",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "read_only",
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EFBIG: "too_large",
    errno.ELOOP: "changed_meanwhile",
    errno.ENAMETOOLONG: "invalid_path",
}


class FileError(Exception):
    """A file cannot be read or written as asked; the text says why and what to do, `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        #: The file of whose content the text tells something: `Workspace.tellable` makes sure that it may be read.
        self.tells_of: Path | None = None
        #: What to say where it may not be read; None for a text that fits whatever went wrong.
        self.otherwise: str | None = None


def shown(path: object) -> str:
    """Return a path as text that can be printed and sent: bytes that are no UTF-8 are escaped, endless paths cut."""
    text = str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if len(text) <= _LONGEST_PATH else f"{text[:200]}…"


@contextmanager
def telling_of(path: Path, otherwise: str | None = None) -> Iterator[None]:
    """Note of a FileError raised here that it tells something of what the file holds."""
    try:
        yield
    except FileError as error:
        if error.tells_of is None:
            error.tells_of, error.otherwise = path, otherwise
        raise


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn an error of the disk into a FileError that begins with `what`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(_CODES.get(error.errno or 0, "io_error"), f"{what}: {reason}") from error
