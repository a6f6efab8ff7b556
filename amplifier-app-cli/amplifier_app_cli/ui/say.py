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
    from amplifier_app_cli.ui.folding import folded
    from amplifier_app_cli.ui.table import terminal_width

    width = terminal_width(stream)
    return text if width is None else folded(text, width)


def complain(code: int, message: str) -> int:
    """Say what went wrong and return the exit code."""
    say(f"amplifier: {message}")
    return code
