"""Say things to the person at the terminal: on standard error, which may be gone."""

from __future__ import annotations

import sys
from typing import TextIO

from amplifier_app_cli.ui.plain import plain


def say(text: str) -> None:
    """Write a line to standard error; what cannot be said there cannot be said at all."""
    stream = sys.stderr
    if stream is None:
        return
    try:
        stream.write(f"{_fitted(plain(text), stream)}\n")
        stream.flush()
    except (OSError, ValueError):
        # Closed, full, or nobody reads it: there is no other place to complain to.
        pass


def _fitted(text: str, stream: TextIO) -> str:
    """Return the text with lines that are too long for a terminal broken between words; elsewhere as it is."""
    if not stream.isatty():
        return text
    from amplifier_app_cli.ui.table import terminal_width

    width = terminal_width(stream)
    return text if width is None else "\n".join(_broken(line, width) for line in text.split("\n"))


def _broken(line: str, width: int) -> str:
    """Return a line as several; a word is never broken, so that ids and paths can be copied as a whole."""
    from amplifier_app_cli.ui.table import columns

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


def complain(code: int, message: str) -> int:
    """Say what went wrong and return the exit code."""
    say(f"amplifier: {message}")
    return code
