"""Say what keys do at the prompt."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from amplifier_app_cli.chat.screen import Listener


def chat_keys(listener: Listener, submit: Callable[[Buffer], None], discard: Callable[[Buffer], None]) -> KeyBindings:
    """Return the keys: Enter submits, Ctrl-J makes a line, Ctrl-C interrupts or discards, Ctrl-D ends.

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

    @keys.add("c-d", filter=is_typing & Condition(lambda: not _text()))
    def _end(event: KeyPressEvent) -> None:
        listener.on_end(is_final=False)

    return keys


def _text() -> str:
    from prompt_toolkit.application import get_app

    return get_app().current_buffer.text
