"""Folders below a folder, opened link by link without following any. Standard library only: the scripts import it."""

from __future__ import annotations

import os

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def descend(root: int, parts: list[str], is_made: bool) -> int:
    """Open a folder below an open one, making what is missing when asked to; the caller closes it.

    Raise OSError; NotADirectoryError when a part of the way is a symbolic link or a file.
    """
    current = os.dup(root)
    try:
        for part in parts:
            if is_made:
                try:
                    os.mkdir(part, 0o755, dir_fd=current)
                except FileExistsError:
                    pass  # What is there must be a folder: opening it says so.
            below = os.open(part, FOLDER, dir_fd=current)
            os.close(current)
            current = below
    except OSError as error:
        os.close(current)
        # The kernel says ELOOP or ENOTDIR for a link, as the flags fall; both mean: no folder.
        kind = NotADirectoryError if error.errno in (20, 40) else type(error)
        raise kind(error.errno, error.strerror, "/".join(parts)) from error
    return current


def split_name(name: str) -> list[str] | None:
    """Return the parts of a name in an archive, none for the folder itself; None when it leads out of the folder."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if name.startswith("/") or ".." in parts or "\0" in name else parts
