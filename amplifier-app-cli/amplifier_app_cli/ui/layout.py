"""Lay out text for a terminal: wrap, fold, shorten; wide characters count as wide."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.table import columns, shortened

#: The arguments that identify a call best, the best first.
_KEY_ARGUMENTS: Final = (
    "command",
    "file_path",
    "path",
    "pattern",
    "query",
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
    return shortened(_plainly(text), max(width, 1))


def _plainly(text: str) -> str:
    return " ".join(plain(text).split())


def fit_label(name: str, what: str, width: int) -> str:
    """Return `name: what` on one line that fits into `width`; where it does not, it is the name that is cut first.

    A name loses what stands before its colon, then, when it takes more than half, its end, but not the number behind it
    that tells it from others.
    """
    name, what = _plainly(name), _plainly(what)
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

    What went wrong often stands at the end of a message, behind who says so.
    """
    width = max(width, 1)
    lines = [shortened(line, width) for line in folded(_plainly(text), width).split("\n")]
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


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 turn`, `2 turns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
