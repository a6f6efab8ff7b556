"""Errors of reading and writing files, for people and models, with stable codes."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["FileError", "as_file_error", "discloses", "shown"]

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
        #: A file whose content the message reveals; `Workspace.disclosable` checks that the session may read it.
        self.disclosed_path: Path | None = None
        #: The message for a session that may not read it; None for a general one.
        self.without_content: str | None = None


def shown(path: object) -> str:
    """Return a path as printable text: invalid UTF-8 is escaped, overlong paths are cut."""
    text = str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if len(text) <= _LONGEST_PATH else f"{text[:200]}…"


@contextmanager
def discloses(path: Path, otherwise: str | None = None) -> Iterator[None]:
    """Mark a FileError raised here as one whose message reveals content of the file."""
    try:
        yield
    except FileError as error:
        if error.disclosed_path is None:
            error.disclosed_path, error.without_content = path, otherwise
        raise


@contextmanager
def as_file_error(what: str) -> Iterator[None]:
    """Turn an OSError into a FileError whose message begins with `what`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(_CODES.get(error.errno or 0, "io_error"), f"{what}: {reason}") from error
