"""The screen of a terminal that can draw: a prompt below, and above it what is still changing."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import History
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout

from amplifier_app_cli.chat.prompt_input import PastedText, is_completable
from amplifier_app_cli.chat.screen import Listener
from amplifier_app_cli.chat.terminal import BlockedKeys
from amplifier_app_cli.ui.colour import Ink
from amplifier_foundation.prompt.user_input import Span, UserInput

#: Seconds between two redraws of the live part.
_PACE = 0.05
#: Seconds in which the keys of one sequence follow an Esc, such as those of an arrow key.
_ESCAPE = 0.1
#: Bytes that are read at a time of what was typed early.
_BLOCK = 65_536
#: Lines that the live part leaves free for the input and the conversation.
_LEFT_FREE = 8


class PromptScreen:
    """Show lines above a prompt that is always there.

    One application runs for the whole chat. A prompt for each input would leave the terminal to itself in between, and
    what is typed then, Ctrl-C above all, would mean something else.
    """

    has_live_part = True
    is_interactive = True
    can_lend = True

    def __init__(self, ink: Ink, history: History, completer: Completer) -> None:
        self.ink = ink
        self._live: Callable[[], str] = str
        self._label: Callable[[], str] = str
        self._listener: Listener | None = None
        self._waiting: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._aside: tuple[Document, tuple[Span, ...]] | None = None
        self._is_question = False
        self._is_lent = False
        self._is_closed = False
        #: Whether something could not be shown.
        self.is_broken = False
        self._session: PromptSession[Any] = PromptSession(
            self._message,
            multiline=True,
            history=history,
            completer=completer,
            complete_in_thread=True,
            complete_while_typing=Condition(
                lambda: is_completable(self._session.default_buffer.document.text_before_cursor)
            ),
            search_ignore_case=True,
            enable_suspend=True,
            erase_when_done=True,
            prompt_continuation=lambda width, number, wrapped: " " * width,
        )
        self._session.app.ttimeoutlen = self._session.app.timeoutlen = _ESCAPE
        self._pasted = PastedText(self._session.default_buffer)

    @property
    def width(self) -> int:
        return self._session.app.output.get_size().columns or 80

    @property
    def height(self) -> int:
        return self._session.app.output.get_size().rows or 24

    def show(self, text: str) -> None:
        """Show lines above the prompt; all of one moment are drawn together."""
        self._waiting.append(text)
        if len(self._waiting) == 1:
            try:
                asyncio.get_running_loop().call_soon(self._flush)
            except RuntimeError:  # nothing is drawn again where no loop runs
                self._flush()

    def write(self, text: str) -> None:
        """Show a piece of a line as a line: what may still change belongs into the live part."""
        self.show(text)

    def refresh(self) -> None:
        """Draw the live part again, soon."""
        if self._timer is None and self._session.app.is_running:
            self._timer = asyncio.get_running_loop().call_later(_PACE, self._redraw)

    def set_live(self, live: Callable[[], str], label: Callable[[], str]) -> None:
        """Call these for the texts above the input and before it."""
        self._live, self._label = live, label

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Leave the terminal to another program for the length of a block; what is shown meanwhile waits."""
        self._flush()
        self._is_lent = True
        try:
            async with in_terminal():
                yield
        finally:
            self._is_lent = False
            self._flush()

    def hide_input(self, draft: str = "") -> None:
        """Set half-written input aside and begin with `draft`, after showing the question."""
        self._flush()
        buffer = self._session.default_buffer
        if not self._is_question and buffer.text:
            self._aside = buffer.document, self._pasted.spans
        self._is_question = True
        buffer.reset(Document(draft))
        self._pasted.start()
        self.refresh()

    def restore_input(self) -> None:
        """Bring half-written input back, unless something else is being typed by now."""
        buffer = self._session.default_buffer
        if self._aside is not None and not buffer.text:
            document, spans = self._aside
            buffer.reset(document)
            self._pasted.start(spans)
        self._aside, self._is_question = None, False
        self.refresh()

    async def run(self, listener: Listener) -> None:
        """Hand over input until `close()` is called or the terminal is gone."""
        self._listener = listener
        self._session.key_bindings = chat_keys(listener, self._submit, self._discard)
        try:
            terminal = self._session.app.input
            typed = read_typed(terminal.fileno())
            with terminal.raw_mode():
                # Only now does the terminal read no more lines: what was typed in between is not lost, nor a draft.
                lines, rest = typed_ahead(typed + read_typed(terminal.fileno()))
                for line in lines:
                    listener.on_line(UserInput.of_data(line))  # it may have been pasted: nothing marks that yet
                store_typeahead(terminal, rest)
                with BlockedKeys(terminal.fileno()), patch_stdout():
                    await self._session.prompt_async(
                        handle_sigint=False, set_exception_handler=False, pre_run=self._end_if_closed
                    )
        except EOFError:
            listener.on_end(is_final=True)
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._flush()

    def close(self) -> None:
        """End `run()`; if it has not begun, it ends when it begins."""
        self._is_closed = True
        app = self._session.app
        if app.is_running and not app.is_done:
            app.exit(result="")

    def _end_if_closed(self) -> None:
        if self._is_closed:
            self._session.app.exit(result="")

    def _submit(self, buffer: Buffer) -> None:
        # Lone surrogates could not be stored or sent.
        text = buffer.text.encode("utf-8", "replace").decode("utf-8")
        assert self._listener is not None
        given = self._pasted.taken(text)
        if text.strip() and not self._is_question:
            self._remember(given.escaped())
        self._discard(buffer)
        self._listener.on_line(given)

    def _remember(self, text: str) -> None:
        known = self._session.history.get_strings()
        if not known or known[-1] != text:
            self._session.history.append_string(text)

    def _discard(self, buffer: Buffer) -> None:
        buffer.reset()
        self._pasted.start()

    def _message(self) -> ANSI:
        live = self._live()
        if live:
            rows = self._session.app.output.get_size().rows
            live = "\n".join(live.split("\n")[-max(rows - _LEFT_FREE, 3) :]) + "\n"
        return ANSI(live + self._label())

    def _redraw(self) -> None:
        self._timer = None
        self._session.app.invalidate()

    def _flush(self) -> None:
        if not self._waiting or self._is_lent:
            return
        text = "".join(f"{lines}\n" for lines in self._waiting)
        self._waiting = []
        app = self._session.app
        try:
            if app.is_running and not app.is_done:
                # Not run_in_terminal(): it makes the terminal read lines meanwhile, and Enter would be a Ctrl-J.
                app.renderer.erase()
            app.output.write_raw(text)
            app.output.flush()
            app.invalidate()
        except OSError:
            # The terminal is gone; SIGHUP or the end of input follows.
            self.is_broken = True


def read_typed(descriptor: int) -> bytes:
    """Return what was typed at a terminal and not read yet; raises EOFError at the end."""
    typed = b""
    while select.select([descriptor], [], [], 0)[0]:
        block = os.read(descriptor, _BLOCK)
        if not block:
            raise EOFError
        typed += block
    return typed


def typed_ahead(typed: bytes) -> tuple[list[str], list[KeyPress]]:
    """Return the lines that were typed before there was a prompt, and the keys of the half line behind them.

    A terminal that reads lines turns Enter into what Ctrl-J is at the prompt.
    """
    *lines, rest = typed.decode("utf-8", "replace").replace("\r", "\n").split("\n")
    keys: list[KeyPress] = []
    Vt100Parser(keys.append).feed_and_flush(rest)
    return lines, keys


def chat_keys(listener: Listener, submit: Callable[[Buffer], None], discard: Callable[[Buffer], None]) -> KeyBindings:
    """Return the keys: Enter submits, Ctrl-J makes a line, Esc and Ctrl-C interrupt, Ctrl-O expands, Ctrl-D ends.

    The prompt is never left by a key: what the keys mean depends on what runs, which `listener` knows.
    """
    keys = KeyBindings()
    is_typing = has_focus(DEFAULT_BUFFER)

    @Condition
    def is_choosing() -> bool:
        from prompt_toolkit.application import get_app

        state = get_app().current_buffer.complete_state
        return state is not None and state.current_completion is not None

    @keys.add("enter", filter=is_typing)
    def _submit(event: KeyPressEvent) -> None:
        submit(event.current_buffer)

    @keys.add("enter", filter=is_typing & is_choosing)
    def _choose(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @keys.add("c-j", filter=is_typing)
    @keys.add("escape", "enter", filter=is_typing)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=is_typing)
    def _interrupt(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if listener.is_busy or not buffer.text:
            listener.on_interrupt()
        else:
            discard(buffer)

    @keys.add("escape", filter=is_typing)
    def _escape(event: KeyPressEvent) -> None:
        if len(event.key_processor.key_buffer) > 1:
            return  # Alt and another key, which means nothing here
        if event.current_buffer.complete_state is not None:
            event.current_buffer.cancel_completion()
        else:
            listener.on_escape()

    @keys.add("c-o", filter=is_typing)
    def _expand(event: KeyPressEvent) -> None:
        listener.on_expand()

    @keys.add("s-tab", filter=is_typing & Condition(lambda: not _is_completing()))
    def _mode(event: KeyPressEvent) -> None:
        listener.on_mode()

    is_menu = is_typing & Condition(lambda: listener.has_menu and not _text())

    @keys.add("up", filter=is_menu)
    def _up(event: KeyPressEvent) -> None:
        listener.on_move(-1)

    @keys.add("down", filter=is_menu)
    @keys.add("tab", filter=is_menu)
    def _down(event: KeyPressEvent) -> None:
        listener.on_move(1)

    @keys.add("enter", filter=is_menu)
    def _take(event: KeyPressEvent) -> None:
        listener.on_choose()

    @keys.add("c-d", filter=is_typing & Condition(lambda: not _text()))
    def _end(event: KeyPressEvent) -> None:
        listener.on_end(is_final=False)

    return keys


def _is_completing() -> bool:
    from prompt_toolkit.application import get_app

    return get_app().current_buffer.complete_state is not None


def _text() -> str:
    from prompt_toolkit.application import get_app

    return get_app().current_buffer.text
