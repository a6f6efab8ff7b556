"""Break lines for a terminal where a person would, so that nothing that is copied is torn."""

from __future__ import annotations

from amplifier_app_cli.ui.table import columns


def folded(text: str, width: int) -> str:
    """Return a text whose lines are broken between words where they are wider than `width`.

    A word is never broken, so that ids and paths can be copied as a whole; what goes on is indented as its line is.
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
