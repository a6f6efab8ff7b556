"""Messages to the user: on standard error, which may be gone."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Final, TextIO

from amplifier_app_cli.app import current_app
from amplifier_app_cli.ui.plain import plain, without_secrets

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
    """Show every message once, masked, with the place in a module's code that failed; with -v also the lines there."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "is_load_failure", False):
            return  # the session reports it once, with how to fix it
        if getattr(record, "event", None) in events_with_notice and not current_app().is_quiet:
            return
        try:
            text = record.getMessage()
        except Exception:  # a message whose arguments do not fit it
            text = str(record.msg)
        if text not in self._shown:
            self._shown.add(text)
            say(without_secrets("\n".join((f"amplifier: {text}{_place(record)}", *_frames(record)))))


#: Events that a session shows itself, unless it is quiet: a warning about one would say the same again.
events_with_notice: set[str] = set()


def _place(record: logging.LogRecord) -> str:
    """Return where a module's own code failed, if it did and the message does not say it."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        file = getattr(record, "module_file", None)
        return f" ({file})" if file else ""
    from amplifier_foundation.tracebacks import location

    place = location(error)
    return f" ({place})" if place and place not in record.getMessage() else ""


def _frames(record: logging.LogRecord) -> list[str]:
    error = record.exc_info[1] if record.exc_info else None
    if error is None or not current_app().is_verbose:
        return []
    from amplifier_foundation.tracebacks import frame_lines

    return frame_lines(error)


def show_warnings() -> None:
    """Show the warnings that libraries log from now on."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_Warnings())
