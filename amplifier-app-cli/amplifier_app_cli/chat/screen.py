"""Screens: what a chat needs of a terminal, and one that only reads and writes lines."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol, TextIO

from amplifier_app_cli.ui.colour import Ink
from amplifier_app_cli.ui.layout import terminal_size
from amplifier_foundation.prompt.user_input import UserInput

if TYPE_CHECKING:
    from amplifier_foundation.prompt.user_input import UserInput


class Listener(Protocol):
    """Receives what the user does."""

    @property
    def is_busy(self) -> bool:
        """Return whether something runs that Ctrl-C stops, even if text is typed already."""
        ...

    def on_line(self, given: UserInput) -> None:
        """Receive an input, which may have several lines and knows which parts were typed."""
        ...

    def on_interrupt(self) -> None:
        """Receive Ctrl-C at an empty input."""
        ...

    def on_escape(self) -> None:
        """Receive Esc."""
        ...

    def on_expand(self) -> None:
        """Receive Ctrl-O."""
        ...

    def on_mode(self) -> None:
        """Receive Shift-Tab."""
        ...

    @property
    def has_menu(self) -> bool:
        """Return whether there is a menu to choose from."""
        ...

    def on_move(self, step: int) -> None:
        """Receive an arrow key in a menu: -1 for up, 1 for down."""
        ...

    def on_choose(self) -> None:
        """Receive Enter in a menu when nothing is typed."""
        ...

    def on_end(self, *, is_final: bool) -> None:
        """Receive Ctrl-D, or with `is_final` the end of all input."""
        ...


class Screen(Protocol):
    """A terminal. Callers make text plain before they show it."""

    ink: Ink

    @property
    def width(self) -> int:
        """Return how many columns there are."""
        ...

    @property
    def height(self) -> int:
        """Return how many rows there are."""
        ...

    @property
    def is_broken(self) -> bool:
        """Return whether output failed: then the user may not have seen the question."""
        ...

    @property
    def is_interactive(self) -> bool:
        """Return whether a user types: lines from a file or a program are prompts only, one after the other."""
        ...

    @property
    def has_live_part(self) -> bool:
        """Return whether there is a live part, which shows unfinished text and changes later."""
        ...

    def show(self, text: str) -> None:
        """Show finished lines."""
        ...

    def write(self, text: str) -> None:
        """Show a piece of a line where there is no live part."""
        ...

    def refresh(self) -> None:
        """Draw the live part and the prompt again, soon."""
        ...

    def set_live(self, live: Callable[[], str], label: Callable[[], str]) -> None:
        """Call `live` for the text above the input and `label` for the text before it, at every drawing."""
        ...

    @property
    def can_lend(self) -> bool:
        """Return whether another program may use the terminal."""
        ...

    def lent(self) -> AbstractAsyncContextManager[None]:
        """Leave the terminal to another program for the length of a block; what is shown meanwhile waits."""
        ...

    def hide_input(self, draft: str = "") -> None:
        """Put half-written input aside: what is typed next, from `draft` on, answers a question."""
        ...

    def restore_input(self) -> None:
        """Bring back what was put aside."""
        ...

    async def run(self, listener: Listener) -> None:
        """Hand over input until `close()` is called or input ends."""
        ...

    def close(self) -> None:
        """End `run()`."""
        ...


_BLOCK = 65_536


class LineScreen:
    """Reads and writes lines; a line that ends in a backslash continues on the next.

    If standard output is not a terminal, it gets the answers only, and standard error everything else.
    """

    has_live_part = False
    #: A thread reads this terminal all the time, and would take lines from another program.
    can_lend = False

    def __init__(self, out: TextIO | None = None, messages: TextIO | None = None, descriptor: int = 0) -> None:
        self.ink = Ink(False)
        self._out = out or sys.stdout
        self._messages = messages or (sys.stdout if sys.stdout.isatty() else sys.stderr)
        self._descriptor = descriptor
        self.is_interactive = os.isatty(descriptor)
        self._label: Callable[[], str] = str
        self._is_asking = False
        self._is_mid_line = False
        self._ended = asyncio.Event()
        #: Whether something could not be shown.
        self.is_broken = False

    @property
    def width(self) -> int:
        return terminal_size(self._messages)[0]

    @property
    def height(self) -> int:
        return terminal_size(self._messages)[1]

    def show(self, text: str) -> None:
        """Show whole lines; an open prompt is repeated below them."""
        was_asking = self._is_asking
        self._end_line()
        self._print(self._messages, f"{text}\n")
        if was_asking:
            self.refresh()

    def write(self, text: str) -> None:
        """Show a piece of a line."""
        self._is_asking = False
        self._is_mid_line = not text.endswith("\n")
        self._print(self._out, text)

    def refresh(self) -> None:
        """Show the prompt unless it is shown already."""
        label = self._label()
        if label and not self._is_asking and self.is_interactive:
            self._end_line()
            self._is_asking = True
            self._print(self._messages, label)

    def set_live(self, live: Callable[[], str], label: Callable[[], str]) -> None:
        """Call `label` for the text before the input; unfinished lines are not shown."""
        self._label = label

    def lent(self) -> AbstractAsyncContextManager[None]:
        """Raise RuntimeError: see `can_lend`."""
        raise RuntimeError("this terminal cannot be lent")

    def hide_input(self, draft: str = "") -> None:
        """Show the label of a question; this terminal cannot prefill a line."""
        self._is_asking = False
        self.refresh()

    def restore_input(self) -> None:
        """Ask for what was asked before."""
        self._is_asking = False
        self.refresh()

    async def run(self, listener: Listener) -> None:
        """Hand over lines until `close()` is called or input ends."""
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        ended = self._ended

        def hand(line: str | None) -> None:
            try:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            except RuntimeError:
                pass  # the program ends

        # Not sys.stdin: a thread that waits inside of it cannot be left behind when the interpreter ends.
        threading.Thread(target=_read, args=(self._descriptor, hand), daemon=True, name="chat-input").start()
        self.refresh()
        closing = asyncio.ensure_future(ended.wait())
        try:
            while not ended.is_set():
                reading = asyncio.ensure_future(lines.get())
                await asyncio.wait({reading, closing}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    return
                line = reading.result()
                self._is_asking = self._is_mid_line = False
                if line is None:
                    listener.on_end(is_final=True)
                    await closing
                    return
                # What comes from a file or a program is not typed. Pasted and typed text look the same here.
                listener.on_line(UserInput.of_typed(line) if self.is_interactive else UserInput.of_data(line))
        finally:
            closing.cancel()

    def close(self) -> None:
        self._ended.set()

    def _end_line(self) -> None:
        if self._is_mid_line or self._is_asking:
            self._print(self._out if self._is_mid_line else self._messages, "\n")
        self._is_mid_line = self._is_asking = False

    def _print(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):
            # The session continues and has a log, but questions the user cannot see are denied.
            self.is_broken |= stream is self._messages


def _read(descriptor: int, hand: Callable[[str | None], None]) -> None:
    """Hand over each input as it is complete, and None at the end."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    rest, begun = "", ""
    while True:
        try:
            block = os.read(descriptor, _BLOCK)
        except OSError:  # a terminal that was closed
            block = b""
        *whole, rest = (rest + decoder.decode(block, final=not block)).split("\n")
        for line in whole + ([rest] if rest and not block else []):
            line = line.removesuffix("\r")
            if line.endswith("\\"):
                begun += line[:-1] + "\n"
                continue
            hand(begun + line)
            begun = ""
        if not block:
            if begun:
                hand(begun.rstrip("\n"))
            hand(None)
            return
