"""List a folder for a model: folders first, within bounds."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Final

from amplifier_kit.guard.files.place import Place, Roots, as_file_error, shown
from amplifier_kit.named_tuple import NamedTuple

__all__ = ["MOST_LISTED", "Listing", "leads_to_hidden", "list_folder"]

#: Entries that are shown.
MOST_LISTED: Final = 1000
#: Entries that are looked at.
_MOST_SEEN: Final = 100_000


class Listing(NamedTuple):
    """What lies in a folder."""

    content: str
    entry_count: int
    warning: str | None


def list_folder(place: Place, roots: Roots, is_hidden: Callable[[str], bool] | None = None) -> Listing:
    """Return the entries of a folder, folders with a slash and links with their target; raises FileError.

    What `is_hidden` tells of, by true paths, is neither named nor counted as an entry, nor is a link that leads there.
    """
    with as_file_error(f"{place.named} cannot be listed"):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(place.name, flags, dir_fd=place.folder)
        try:
            roots.check(place, "read")
            with os.scandir(folder) as entries:
                found = sorted(
                    (not entry.is_dir(follow_symlinks=False), entry.name) for entry in islice(entries, _MOST_SEEN)
                )
            left_out = 0
            if is_hidden is not None:
                seen = len(found)
                found = [entry for entry in found if not leads_to_hidden(place.path / entry[1], is_hidden)]
                left_out = seen - len(found)
            lines = [_line(folder, name, is_folder=not is_file) for is_file, name in found[:MOST_LISTED]]
        finally:
            os.close(folder)
    warnings = []
    if len(found) > MOST_LISTED:
        more = "at least " if len(found) + left_out == _MOST_SEEN else ""
        warnings.append(f"{MOST_LISTED} of {more}{len(found)} entries are listed.")
    if left_out:
        entries_are, them = ("1 entry is", "it") if left_out == 1 else (f"{left_out} entries are", "them")
        warnings.append(f"{entries_are} left out because rules restrict {them}.")
    return Listing("\n".join(lines), len(found), " ".join(warnings) or None)


def leads_to_hidden(path: Path, is_hidden: Callable[[str], bool]) -> bool:
    """Return whether an entry of a folder, given by its real path, is hidden or a link to a hidden path."""
    if is_hidden(str(path)):
        return True
    try:
        target = path.parent / os.readlink(path)
    except OSError:
        return False  # no link, or gone
    # The target, which may be a link as well, and where that leads.
    return is_hidden(os.path.join(os.path.realpath(target.parent), target.name)) or is_hidden(os.path.realpath(target))


def _line(folder: int, name: str, *, is_folder: bool) -> str:
    printed = shown(name)
    printed = printed if printed.isprintable() else repr(printed)
    if is_folder:
        return f"{printed}/"
    try:
        return f"{printed} -> {shown(os.readlink(name, dir_fd=folder))}"
    except OSError:
        return printed  # no link, or gone
