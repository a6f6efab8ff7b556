"""Turn text that arrives in pieces into whole lines."""

from __future__ import annotations

from typing import Final

_BLANKS: Final = " \t\n"


class LineBuffer:
    """Collect pieces of text and return lines as soon as they are complete.

    Long lines are broken at blanks, so that something is seen before a paragraph ends. Which lines come out does not
    depend on where the pieces were cut.
    """

    def __init__(self, width: int = 100, longest: int = 4000) -> None:
        """Break lines at `width` characters, and words that are longer than `longest` inside."""
        self._width = width
        self._longest = longest
        self._rest = ""

    def feed(self, text: str) -> list[str]:
        """Add a piece and return the lines it completes."""
        self._rest += text
        lines = []
        while (cut := self._cut()) is not None:
            end, start = cut
            lines.append(self._rest[:end])
            self._rest = self._rest[start:]
        return lines

    def flush(self) -> list[str]:
        """Return the rest as the last line, unless it is blank."""
        rest, self._rest = self._rest, ""
        return [rest] if rest.strip() else []

    def _cut(self) -> tuple[int, int] | None:
        """Return where the first line ends and the next one starts, None when that is unknown yet."""
        rest, width = self._rest, self._width
        newline = rest.find("\n", 0, width + 1)
        if newline >= 0:
            return newline, newline + 1
        if len(rest) <= width:
            return None
        blank = max(rest.rfind(char, 1, width + 1) for char in _BLANKS)
        if blank > 0:
            return blank, blank + 1
        after = [found for char in _BLANKS if (found := rest.find(char, width + 1, self._longest)) >= 0]
        if after:
            return min(after), min(after) + 1
        return (self._longest, self._longest) if len(rest) >= self._longest else None
