"""The person at the terminal of a run: asked on standard error, so that standard output has the answer alone."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from amplifier_app_cli.chat.ink import Ink
from amplifier_app_cli.ui.table import terminal_size


class TerminalPerson:
    """Show lines and read answers, one at a time."""

    #: Nobody reads here between questions, so that an editor may.
    can_lend = True

    def __init__(self, environ: dict[str, str], pause: Callable[[], None]) -> None:
        """Ask on the terminal; `pause` ends what somebody else is writing there."""
        self._pause = pause
        self.ink = Ink.for_terminal(environ, is_terminal=True)
        #: Whoever asked last gets the next line; there is one reader, so that no two share one.
        self._answer: asyncio.Future[str | None]
        self._is_reading = False
        #: Whether a question stands there that nobody has answered.
        self._is_line_open = False
        #: Whether something could not be shown: then nothing is answered any more.
        self._is_broken = False

    @property
    def width(self) -> int:
        """Return how many columns there are."""
        return terminal_size(sys.stderr)[0]

    @property
    def height(self) -> int:
        """Return how many rows there are."""
        return terminal_size(sys.stderr)[1]

    def show(self, text: str) -> None:
        """Show whole lines; an answer that is being written ends its line first, where both are on one screen."""
        self._pause()
        start = "\n" if self._is_line_open else ""
        self._is_line_open = False
        self._print(f"{start}{text}\n")

    async def ask(self, label: str, draft: str = "") -> str | None:
        """Return one line, None at the end of input. A line that can be changed is more than this can do.

        What was typed before the question was there is no answer to it.
        """
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        _forget_typed()
        self._print(label)
        if self._is_broken:
            return None
        self._answer, self._is_line_open = answer, True
        if not self._is_reading:  # else the line that an earlier question did not get is the next one
            self._is_reading = True
            # A thread that nobody waits for: Ctrl-C must not have to wait for an answer.
            threading.Thread(target=self._read, name="amplifier-approval", daemon=True).start()
        return await answer

    def refuse(self) -> None:
        """Answer the question that is put, if one is, by none: the person stops the run."""
        if self._is_line_open and not self._answer.done():
            self._answer.set_result(None)

    def _print(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            self._is_broken = True  # nobody reads it

    def _read(self) -> None:
        line = _line()
        try:
            self._answer.get_loop().call_soon_threadsafe(self._take, line)
        except RuntimeError:
            pass  # the program ended meanwhile

    def _take(self, line: str | None) -> None:
        self._is_reading = self._is_line_open = False
        if not self._answer.done():
            self._answer.set_result(line)

    def lent(self) -> AbstractAsyncContextManager[None]:
        """Leave the terminal to another program for the length of a block."""
        return _nothing()


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


def _forget_typed() -> None:
    import termios

    try:
        termios.tcflush(0, termios.TCIFLUSH)
    except (OSError, termios.error):
        pass  # no terminal: then there is nothing that was typed


def _line() -> str | None:
    """Read a line of standard input; not by sys.stdin, in which a thread cannot be left behind at the end."""
    line = b""
    while not line.endswith(b"\n"):
        try:
            read = os.read(0, 1)
        except OSError:
            read = b""
        if not read:
            return line.decode("utf-8", "replace") if line else None
        line += read
    return line.decode("utf-8", "replace").rstrip("\r\n")
