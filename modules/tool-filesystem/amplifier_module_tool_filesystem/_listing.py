"""List a folder for a model: folders first, within bounds."""

from __future__ import annotations

import os
from itertools import islice
from typing import Final, NamedTuple

from amplifier_kit.files import Place, Roots, shown, told

__all__ = ["MOST_LISTED", "Listing", "list_folder"]

#: Entries that are shown.
MOST_LISTED: Final = 1000
#: Entries that are looked at.
_MOST_SEEN: Final = 100_000


class Listing(NamedTuple):
    """What lies in a folder."""

    content: str
    entry_count: int
    warning: str | None


def list_folder(place: Place, roots: Roots) -> Listing:
    """Return the entries of a folder, folders with a slash and links with their target; raises FileError."""
    with told(f"{place.named} cannot be listed"):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(place.name, flags, dir_fd=place.folder)
        try:
            roots.check(place, "read")
            with os.scandir(folder) as entries:
                found = sorted(
                    (not entry.is_dir(follow_symlinks=False), entry.name) for entry in islice(entries, _MOST_SEEN)
                )
            lines = [_line(folder, name, is_folder=not is_file) for is_file, name in found[:MOST_LISTED]]
        finally:
            os.close(folder)
    warning = None
    if len(found) > MOST_LISTED:
        more = "at least " if len(found) == _MOST_SEEN else ""
        warning = f"{MOST_LISTED} of {more}{len(found)} entries are listed."
    return Listing("\n".join(lines), len(found), warning)


def _line(folder: int, name: str, *, is_folder: bool) -> str:
    printed = shown(name)
    printed = printed if printed.isprintable() else repr(printed)
    if is_folder:
        return f"{printed}/"
    try:
        return f"{printed} -> {shown(os.readlink(name, dir_fd=folder))}"
    except OSError:
        return printed  # no link, or gone
