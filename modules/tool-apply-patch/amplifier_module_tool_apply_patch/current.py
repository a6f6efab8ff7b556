"""Show a model what a file holds now, when its patch does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amplifier_kit.guard.files.place import FileError
from amplifier_kit.guard.files.text import nearest_line

__all__ = ["MOST_LINES", "Current"]

#: Lines of a file that a message shows.
MOST_LINES: Final = 200
_LONGEST: Final = 500


class Current:
    """The content of a file, for messages."""

    def __init__(self, name: str, lines: Sequence[str]) -> None:
        self.name = name
        self._lines = lines

    def mismatch(self, reason: str, wanted: Sequence[str]) -> FileError:
        """Return the error of a hunk that does not fit, with the lines around where it may have been meant."""
        return FileError("context_mismatch", f"{self.name}: {reason}. {self.excerpt(wanted)}")

    def exists(self) -> FileError:
        """Return the error for a file that was to be new."""
        return FileError("already_exists", f"{self.name} exists already; update it instead. {self.excerpt([])}")

    def excerpt(self, wanted: Sequence[str]) -> str:
        """Return the file, or the part of it that matters, with a line that says which."""
        total = len(self._lines)
        if not total:
            return "It is empty."
        at = nearest_line(self._lines, wanted) or 0
        first = max(0, min(at - MOST_LINES // 2, total - MOST_LINES))
        part = self._lines[first : first + MOST_LINES]
        which = (
            "It holds now:" if len(part) == total else f"Lines {first + 1} to {first + len(part)} of {total} are now:"
        )
        return "\n".join([which, *(line[:_LONGEST] for line in part)])
