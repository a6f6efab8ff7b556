"""Messages to the user: on standard error, which may be gone."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Final, TextIO

from amplifier_app_cli.ui.plain import plain

#: Called before every line: who writes text in pieces to the same terminal ends its open line there.
before_line: Final[list[Callable[[], None]]] = []


def say(text: str) -> None:
    """Write a line to standard error; a failure to do so is ignored."""
    stream = sys.stderr
    if stream is None:
        return
    for end_open_line in tuple(before_line):
        end_open_line()
    try:
        stream.write(f"{_fitted(plain(text), stream)}\n")
        stream.flush()
    except (OSError, ValueError):
        pass  # closed, full, or without a reader: there is no other place to report to


def _fitted(text: str, stream: TextIO) -> str:
    """Return the text with lines that are too long for a terminal broken between words; elsewhere as it is."""
    if not stream.isatty():
        return text
    from amplifier_app_cli.ui.layout import folded, terminal_width

    width = terminal_width(stream)
    return text if width is None else folded(text, width)


def complain(code: int, message: str) -> int:
    """Say what went wrong and return the exit code."""
    say(f"amplifier: {message}")
    return code


class _Warnings(logging.Handler):
    """Show every message once, without its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception:  # a message whose arguments do not fit it
            text = str(record.msg)
        if text not in self._shown:
            self._shown.add(text)
            say(f"amplifier: {text}")


def show_warnings() -> None:
    """Show the warnings that libraries log from now on."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_Warnings())
