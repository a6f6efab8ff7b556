"""The modes of the terminal: restore them after a crash, and let Ctrl-C through while the event loop is blocked."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import threading
import time
from typing import Any, Final, TextIO

#: The rest of the screen is cleared; colours and bracketed paste are off, the cursor is there.
_PLAIN: Final = b"\x1b[0m\x1b[?2004l\x1b[?25h\x1b[J"


class TerminalModes:
    """The modes of the terminal at the time of creation, if there is a terminal."""

    def __init__(self) -> None:
        typed, drawn = _terminal(sys.stdin), _terminal(sys.stdout)
        self._modes: list[Any] = [] if typed is None else termios.tcgetattr(typed)
        self._typed, self._drawn = typed, drawn

    def restore(self) -> None:
        """Restore the modes, from any thread, unless the terminal is gone or another program owns it."""
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
    except (OSError, ValueError):  # closed, or replaced by something that is not a file
        return None


#: Seconds between two heartbeats of the loop.
_BEAT: Final = 0.4
#: Seconds without one after which the loop counts as blocked.
_BLOCKED: Final = 1.2
#: Where the parts of a terminal's modes stand.
_LOCAL, _KEYS = 3, 6
#: Keys are signals, and do not cost what was typed before.
_SIGNALS: Final = termios.ISIG | termios.NOFLSH
#: Other keys that would be signals too.
_OTHERS: Final = (termios.VQUIT, termios.VSUSP)
#: The value that makes a key no signal.
_NO_KEY: Final = b"\0"


class BlockedKeys:
    """While entered, by the task that reads keys, make sure that Ctrl-C reaches the process while its loop is blocked.

    A SIGINT means in a chat what the key means. What was typed before stays where it is, and is read later.
    """

    def __init__(self, terminal: int) -> None:
        """Look after the terminal with that file descriptor."""
        self._terminal = terminal
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._beat = 0.0
        self._timer: asyncio.TimerHandle | None = None
        #: The keys as they were, when they are signals now.
        self._before: list[Any] | None = None

    def __enter__(self) -> BlockedKeys:
        self._live()
        threading.Thread(target=self._look, name="amplifier-keys", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._over.set()
        if self._timer is not None:
            self._timer.cancel()

    def _live(self) -> None:
        """Record repeatedly that the loop runs; undo what was changed while it was blocked."""
        self._beat = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(_BEAT, self._live)
        if self._before is not None:
            with self._guard:
                self._be_keys(self._before)
                self._before = None

    def _look(self) -> None:
        """Make Ctrl-C a signal as soon as the loop is blocked."""
        while not self._over.wait(_BEAT):
            with self._guard:
                if not self._over.is_set() and self._before is None and time.monotonic() - self._beat > _BLOCKED:
                    self._before = self._be_signals()

    def _be_signals(self) -> list[Any] | None:
        """Return the keys as they were; None when the terminal is gone, or lent to another program."""
        try:
            modes = termios.tcgetattr(self._terminal)
            if modes[_LOCAL] & (termios.ISIG | termios.ICANON):
                return None
            before = list(modes[_KEYS])
            modes[_LOCAL] |= _SIGNALS
            for key in _OTHERS:
                modes[_KEYS][key] = _NO_KEY
            termios.tcsetattr(self._terminal, termios.TCSANOW, modes)
        except termios.error:
            return None
        return before

    def _be_keys(self, before: list[Any]) -> None:
        try:
            modes = termios.tcgetattr(self._terminal)
            if modes[_LOCAL] & termios.ICANON:
                return  # another program has set it since
            modes[_LOCAL] &= ~_SIGNALS
            modes[_KEYS] = before
            termios.tcsetattr(self._terminal, termios.TCSANOW, modes)
        except termios.error:
            pass  # the terminal is gone: SIGHUP follows
