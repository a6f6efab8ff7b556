"""The person at the terminal of a run, asked on standard error: standard output is for the answer alone."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from amplifier_app_cli.ui.colour import Ink
from amplifier_app_cli.ui.layout import terminal_size
from amplifier_app_cli.ui.menu import Option


class StderrTerminal:
    """Show lines and read answers, one at a time."""

    #: Nothing reads the terminal between questions, so an editor may.
    can_lend = True
    has_menus = False
    can_answer = True

    def __init__(self, environ: dict[str, str], pause: Callable[[], None]) -> None:
        """Ask on the terminal; `pause` ends the line that the printer is writing there."""
        self._pause = pause
        self.ink = Ink.for_terminal(environ, is_terminal=True)
        #: The latest question gets the next line; a single reader keeps two from sharing one.
        self._answer: asyncio.Future[str | None]
        self._is_reading = False
        #: Whether a question is shown and unanswered.
        self._is_line_open = False
        #: Whether output has failed: then no answer counts.
        self._is_broken = False

    @property
    def width(self) -> int:
        return terminal_size(sys.stderr)[0]

    @property
    def height(self) -> int:
        return terminal_size(sys.stderr)[1]

    def show(self, text: str) -> None:
        """Show whole lines, after ending the line of an answer that is being streamed."""
        self._pause()
        start = "\n" if self._is_line_open else ""
        self._is_line_open = False
        self._print(f"{start}{text}\n")

    async def ask(self, label: str, draft: str = "", options: Sequence[Option] = ()) -> str | None:
        """Return one line, None at the end of input; `draft` and menus are not supported here.

        Input that was typed before the question was shown is discarded.
        """
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        _discard_typed()
        self._print(label)
        if self._is_broken:
            return None
        self._answer, self._is_line_open = answer, True
        if not self._is_reading:  # else the reader of an earlier question delivers it
            self._is_reading = True
            # A daemon thread: Ctrl-C must not have to wait for an answer.
            threading.Thread(target=self._read, name="amplifier-approval", daemon=True).start()
        return await answer

    def refuse(self) -> None:
        """Answer the open question, if any, with None: the person stops the run."""
        if self._is_line_open and not self._answer.done():
            self._answer.set_result(None)

    def _print(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            self._is_broken = True

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
        """Lend the terminal to another program for the length of a block."""
        return nullcontext()


def _discard_typed() -> None:
    import termios

    try:
        termios.tcflush(0, termios.TCIFLUSH)
    except (OSError, termios.error):
        pass  # not a terminal


def _line() -> str | None:
    """Read a line of standard input; not through sys.stdin, whose lock an abandoned thread would keep at exit."""
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
