"""Lay out rows in columns for a person: fitted to the terminal, wide characters counted as wide."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from typing import TextIO

from amplifier_app_cli.ui.plain import plain

_GAP = "  "
#: Columns are not made narrower than this, unless they are to begin with.
_LEAST = 8
#: The width of a terminal that does not know its own.
_USUAL = 80
_USUAL_ROWS = 24


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    width: int | None = None,
    *,
    whole: Collection[str] = (),
) -> str:
    """Return the rows under their headings; the widest columns are cut when the terminal is narrower.

    In a terminal too narrow for all columns every value has a separate line. `width` is that of the terminal, None
    without one: then nothing is cut, since a program may read it. Columns of the headings in `whole` are never cut:
    users type their values again.
    """
    cells = [[_cell(value) for value in row] for row in [headings, *rows]]
    widths = [max(columns(row[index]) for row in cells) for index in range(len(headings))]
    if width is not None:
        room = width - len(_GAP) * (len(widths) - 1)
        kept = {index for index, heading in enumerate(headings) if heading in whole}
        if sum(at if index in kept else min(at, _LEAST) for index, at in enumerate(widths)) > room:
            return _stacked(cells[0], cells[1:], width, kept)
        _shrink(widths, room, kept)
    return "\n".join(_GAP.join(_fit(cell, at) for cell, at in zip(row, widths, strict=True)).rstrip() for row in cells)


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the columns of a stream, by default standard output; None if it is not a terminal."""
    import os
    import sys

    stream = stream or sys.stdout
    if stream is None or not stream.isatty():
        return None
    wished = os.environ.get("COLUMNS", "")
    if wished.isdecimal() and int(wished) > 0:
        return int(wished)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    except (OSError, ValueError):
        return _USUAL


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Return the columns and rows of a terminal; 80 and 24 if it is none or does not know."""
    import os

    try:
        found = os.get_terminal_size(stream.fileno())
        rows = found.lines or _USUAL_ROWS
    except (OSError, ValueError):
        rows = _USUAL_ROWS
    return terminal_width(stream) or _USUAL, rows


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def shortened(text: str, width: int) -> str:
    """Return a text cut to `width` columns, with an ellipsis if something is missing."""
    if columns(text) <= width:
        return text
    if width < 1:
        return ""
    kept, used = [], 1
    for character in text:
        used += _columns_of(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + "…"


def _columns_of(character: str) -> int:
    # Vowels and endings of Korean letters in parts are drawn into the letter before them.
    if unicodedata.category(character) in ("Cf", "Me", "Mn") or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cell(value: object) -> str:
    return " ".join(plain("" if value is None else str(value)).split())


def _fit(text: str, width: int) -> str:
    text = shortened(text, width)
    return text + " " * (width - columns(text))


def _shrink(widths: list[int], room: int, kept: Collection[int]) -> None:
    """Take from the widest columns that are not `kept` until the row has room."""
    free = [index for index in range(len(widths)) if index not in kept]
    while (too_much := sum(widths) - room) > 0 and (widest := max((widths[one] for one in free), default=0)) > _LEAST:
        next_widest = max([_LEAST, *(widths[one] for one in free if widths[one] < widest)])
        # All that are as wide give alike, down to the next one at most.
        alike = [one for one in free if widths[one] == widest]
        share = max(1, min(too_much // len(alike), widest - next_widest))
        for index in alike[: max(1, min(len(alike), too_much))]:
            widths[index] -= share


def _stacked(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, kept: Collection[int]) -> str:
    """Return every row as lines of heading and value, with an empty line between rows."""
    return "\n\n".join(
        "\n".join(
            _entry(heading, cell, width, is_whole=index in kept)
            for index, (heading, cell) in enumerate(zip(headings, row, strict=True))
            if cell
        )
        for row in rows
    )


def _entry(heading: str, cell: str, width: int, *, is_whole: bool) -> str:
    """Return one value with its heading: beside it, or below it when that is too long."""
    line = f"{heading}: {cell}" if heading else cell
    if columns(line) <= width or not heading:
        return line if is_whole else shortened(line, width)
    return f"{shortened(f'{heading}:', width)}\n{cell if is_whole else shortened(f'  {cell}', width)}"
