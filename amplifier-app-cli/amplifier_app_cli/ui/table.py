"""Lay out rows in columns for a person: fitted to the terminal, wide characters counted as wide."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from amplifier_app_cli.ui.plain import plain

_GAP = "  "
_LEAST = 8


def table(headings: Sequence[str], rows: Sequence[Sequence[object]], width: int | None = None) -> str:
    """Return the rows under their headings; the widest columns are cut when the terminal is narrower.

    `width` is that of the terminal, None when there is none: then nothing is cut, since a program may read it.
    """
    cells = [[_cell(value) for value in row] for row in [headings, *rows]]
    widths = [max(columns(row[index]) for row in cells) for index in range(len(headings))]
    if width is not None:
        _shrink(widths, width - len(_GAP) * (len(widths) - 1))
    return "\n".join(_GAP.join(_fit(cell, at) for cell, at in zip(row, widths, strict=True)).rstrip() for row in cells)


def terminal_width() -> int | None:
    """Return how many columns standard output has, None when it is no terminal."""
    import shutil
    import sys

    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(_columns_of(character) for character in text)


def shortened(text: str, width: int) -> str:
    """Return the beginning of a text that fits into so many columns, with a mark when something is missing."""
    if columns(text) <= width:
        return text
    kept, used = [], 1
    for character in text:
        used += _columns_of(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + "…"


def _columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cell(value: object) -> str:
    return " ".join(plain("" if value is None else str(value)).split())


def _fit(text: str, width: int) -> str:
    text = shortened(text, width)
    return text + " " * (width - columns(text))


def _shrink(widths: list[int], room: int) -> None:
    """Take from the widest columns, one by one, until the row has room or nothing is left to take."""
    while sum(widths) > room and max(widths) > _LEAST:
        widest = widths.index(max(widths))
        widths[widest] -= 1
