"""Say why a file could not be read or written, for people and models alike."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["FileError", "shown", "told"]

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


def shown(path: object) -> str:
    """Return a path as text that can be printed and sent: bytes that are no UTF-8 are escaped, endless paths cut."""
    text = str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if len(text) <= _LONGEST_PATH else f"{text[:200]}…"


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn an error of the disk into a FileError that begins with `what`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(_CODES.get(error.errno or 0, "io_error"), f"{what}: {reason}") from error
