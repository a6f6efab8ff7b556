"""Bring a terminal back to what it was before something was drawn on it."""

from __future__ import annotations

import os
import sys
import termios
from typing import Any, Final, TextIO

#: The rest of the screen is cleared; colours and bracketed paste are off, the cursor is there.
_PLAIN: Final = b"\x1b[0m\x1b[?2004l\x1b[?25h\x1b[J"


class TerminalModes:
    """How the terminal that is typed at is set when this is made; where there is none, nothing."""

    def __init__(self) -> None:
        typed, drawn = _terminal(sys.stdin), _terminal(sys.stdout)
        self._modes: list[Any] = [] if typed is None else termios.tcgetattr(typed)
        self._typed, self._drawn = typed, drawn

    def restore(self) -> None:
        """Set the terminal so again, from any thread; one that is gone, or another program's, needs nothing."""
        if self._typed is None or self._drawn is None:
            return
        try:
            if os.tcgetpgrp(self._typed) != os.getpgrp():
                return  # in the background: to set it would stop this process
            termios.tcsetattr(self._typed, termios.TCSANOW, self._modes)
            os.write(self._drawn, _PLAIN)
        except (OSError, termios.error):
            pass


def _terminal(stream: TextIO | None) -> int | None:
    """Return the file descriptor of a stream that is a terminal, None for another."""
    try:
        return stream.fileno() if stream is not None and stream.isatty() else None
    except (OSError, ValueError):  # closed, or replaced by something that is no file
        return None
