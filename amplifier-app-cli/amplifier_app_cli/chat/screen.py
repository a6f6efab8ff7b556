"""What a chat needs of a terminal, whatever it can do: show lines, show what is not finished yet, hand over input."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from amplifier_app_cli.chat.ink import Ink

if TYPE_CHECKING:
    from amplifier_foundation.prompt.user_input import UserInput


class Listener(Protocol):
    """Take what the person does."""

    @property
    def is_busy(self) -> bool:
        """Tell whether something runs that Ctrl-C stops, whatever is typed already."""
        ...

    def on_line(self, given: UserInput) -> None:
        """Take a finished input, which may have several lines, and knows what of it was typed."""
        ...

    def on_interrupt(self) -> None:
        """Take Ctrl-C at an empty input."""
        ...

    def on_end(self, *, is_final: bool) -> None:
        """Take Ctrl-D, or with `is_final` the end of all input."""
        ...


class Screen(Protocol):
    """A terminal. Everything that is shown has been made plain by whoever shows it."""

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
        """Tell whether something could not be shown: then nobody may have seen what is asked."""
        ...

    @property
    def is_interactive(self) -> bool:
        """Tell whether a person types: what comes from a file or a program is prompts alone, one after the other."""
        ...

    @property
    def has_live_part(self) -> bool:
        """Tell whether what is not finished can be shown and changed later."""
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
        """Ask `live` for what stands above the input and `label` for what stands before it, at every drawing."""
        ...

    @property
    def can_lend(self) -> bool:
        """Tell whether another program may have the terminal for a while."""
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
        """Hand over input until `close()` is called or there is none any more."""
        ...

    def close(self) -> None:
        """End `run()`."""
        ...
