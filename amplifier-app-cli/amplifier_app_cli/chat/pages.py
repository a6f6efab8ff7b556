"""Divide what a person decides on into pages, so that nothing of it leaves the screen before it could be read.

A page is laid out when it is shown, for the terminal as it is then: one that was resized in between gets the rest in
its new size. A line stays whole where it fits on its page, for the terminal to wrap, so that it can be copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from amplifier_app_cli.chat.ink import Ink, Tone
from amplifier_app_cli.ui.table import columns

__all__ = ["Line", "Pages"]

#: A terminal that is lower than this has no room for a page and a question below it; it scrolls.
_LEAST_ROWS = 3


class Line(NamedTuple):
    """A line of text and how it looks."""

    text: str
    tone: Tone | None = None


class Pages:
    """Give lines page by page."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = [line._replace(text=line.text.expandtabs(4)) for line in lines]
        self._next = 0
        #: How much of the next line was shown already.
        self._offset = 0
        self._shown = 0
        self._total = sum(len(line.text) + 1 for line in self._lines)

    @property
    def is_over(self) -> bool:
        """Tell whether everything was given."""
        return self._next >= len(self._lines)

    @property
    def share(self) -> int:
        """Return how much was given, in per cent; 100 for everything alone."""
        return 100 if self.is_over else min(99, self._shown * 100 // max(self._total, 1))

    def take(self, width: int, rows: int, ink: Ink) -> str:
        """Return the next page for a terminal of this size."""
        left = max(rows, _LEAST_ROWS)
        page: list[str] = []
        while left > 0 and not self.is_over:
            text, tone = self._lines[self._next]
            end, used = _cut(text, self._offset, max(width, 1), left)
            piece = text[self._offset : end]
            page.append(piece if tone is None or not piece else ink(tone, piece))
            left -= used
            self._shown += end - self._offset
            if end < len(text):
                self._offset = end
                break
            self._shown += 1
            self._next, self._offset = self._next + 1, 0
        return "\n".join(page)


def _cut(text: str, start: int, width: int, rows: int) -> tuple[int, int]:
    """Return how far a text goes, from `start`, that fits into so many rows, and how many of them it takes."""
    if text.isascii():
        end = min(len(text), start + width * rows)
        return end, max(1, -(-(end - start) // width))
    used, column, end = 1, 0, start
    while end < len(text):
        wide = columns(text[end])
        if column + wide > width and column:
            if used == rows:
                break
            used, column = used + 1, 0
        column += wide
        end += 1
    return end, used
