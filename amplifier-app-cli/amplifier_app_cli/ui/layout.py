"""Lay out text and tables for a terminal: wrap, fold, shorten; wide characters count as wide."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TextIO

from amplifier_app_cli.ui.plain import plain

#: The arguments that identify a call best, the best first.
_KEY_ARGUMENTS: Final = (
    "command",
    "file_path",
    "pattern",
    "query",
    "path",
    "url",
    "agent",
    "name",
    "prompt",
    "instruction",
)


def wrap_text(text: str, width: int) -> list[str]:
    """Return the lines of a text, none wider than `width`, broken between words where possible; nothing is lost."""
    lines: list[str] = []
    for line in text.split("\n"):
        piece = ""
        for character in line.expandtabs(4):
            while piece and columns(piece) + columns(character) > width:
                end = piece.rfind(" ") + 1 or len(piece)
                lines.append(piece[:end])
                piece = piece[end:]
            piece += character
        lines.append(piece)
    return lines


def one_line(text: str, width: int) -> str:
    """Return a text on one line that fits into `width`."""
    return shortened(single_line(text), max(width, 1))


def single_line(text: str) -> str:
    """Return a text without terminal escapes, on one line."""
    return " ".join(plain(text).split())


def fit_label(name: str, what: str, width: int) -> str:
    """Return `name: what` on one line that fits into `width`; where it does not, it is the name that is cut first.

    A name loses the part before its colon, then, when it takes more than half, its end, but not the number behind it
    that distinguishes it from others.
    """
    name, what = single_line(name), single_line(what)
    text = f"{name}: {what}"
    if columns(text) > width:
        own = name.rpartition(":")[2].strip() or name
        room = max(width - columns(what) - 2, width // 2 if columns(own) <= width // 2 else width // 3)
        text = f"{_cut_name(own, room)}: {what}"
    return one_line(text, width)


def _cut_name(name: str, width: int) -> str:
    first, _, number = name.rpartition(" ")
    if columns(name) <= width or not first or not number.isdecimal() or len(number) + 2 > width:
        return shortened(name, width)
    return f"{shortened(first, width - len(number) - 1)} {number}"


def few_lines(text: str, width: int, most: int = 4) -> list[str]:
    """Return a text on a few lines of at most `width` columns; of one that is too long the middle is left out.

    The actual error is often at the end of a message, behind its source.
    """
    width = max(width, 1)
    lines = [shortened(line, width) for line in folded(single_line(text), width).split("\n")]
    if len(lines) <= most:
        return lines
    first = lines[: most // 2]
    last = lines[len(first) - most :]
    return [*first, shortened(f"… {last[0]}", width), *last[1:]]


def summarize_input(tool_input: Any, width: int) -> str:
    """Return what identifies a tool call best, on one line."""
    if not isinstance(tool_input, Mapping) or not tool_input:
        return ""
    for key in _KEY_ARGUMENTS:
        if isinstance(value := tool_input.get(key), str) and value.strip():
            return one_line(value, width)
    return one_line(json.dumps(dict(tool_input), ensure_ascii=False, default=str), width)


def duration(seconds: float) -> str:
    """Return a duration in words."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def folded(text: str, width: int) -> str:
    """Return a text whose lines are broken between words where they are wider than `width`.

    A word is never broken, so that ids and paths can be copied as a whole; continuation lines keep the indent.
    """
    return "\n".join(_broken(line, width) for line in text.split("\n"))


def _broken(line: str, width: int) -> str:
    if columns(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip(" "))]
    first, *words = line.lstrip(" ").split(" ")
    lines = [indent + first]
    indent = indent if len(indent) < width // 2 else ""
    for word in words:
        if columns(lines[-1]) + 1 + columns(word) <= width:
            lines[-1] += f" {word}"
        elif word:  # what is between two lines needs no blanks
            lines.append(indent + word)
    return "\n".join(part.rstrip(" ") for part in lines)


def size_text(size: int) -> str:
    """Return a number of bytes in words."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 turn`, `2 turns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
    """Return the columns and rows of a terminal; 80 and 24 if it is not a terminal or does not know them."""
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
    import unicodedata  # a library that most runs need not load

    if unicodedata.category(character) in ("Cf", "Me", "Mn") or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cell(value: object) -> str:
    return single_line("" if value is None else str(value))


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
