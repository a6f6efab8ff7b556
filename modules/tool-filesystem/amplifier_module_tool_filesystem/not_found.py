"""Tell a model that a file does not exist, and which one it may have meant."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from typing import Final

from amplifier_kit.guard.files.place import FileError, Place, shown
from amplifier_module_tool_filesystem.folder import leads_to_hidden

__all__ = ["missing"]

_MOST_SEEN: Final = 2000


def missing(place: Place, advice: str = "", is_hidden: Callable[[str], bool] | None = None) -> FileError:
    """Return the error for a place where nothing lies, with names that resemble it and are not hidden."""
    absent = place.missing[0] if place.missing else place.name
    text = f"{place.named} does not exist"
    if place.missing:
        text += f": folder {shown(absent)!r} is missing"
    similar = _similar(place, absent, is_hidden)
    if similar:
        text += f"; did you mean {' or '.join(repr(shown(name)) for name in similar)}?"
    if advice:
        text += f"{' ' if similar else '. '}{advice}"
    return FileError("not_found", text)


def _similar(place: Place, name: str, is_hidden: Callable[[str], bool] | None) -> list[str]:
    from difflib import get_close_matches

    try:
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.folder)
    except OSError:
        return []  # a folder that cannot be listed has no advice to give
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MOST_SEEN)]
    finally:
        os.close(folder)
    if is_hidden is not None:
        parent = place.path.parents[len(place.missing)]
        names = [known for known in names if not leads_to_hidden(parent / known, is_hidden)]
    folded = {known.casefold(): known for known in names}
    return [folded[close] for close in get_close_matches(name.casefold(), folded, n=2, cutoff=0.7)]
