"""Show what hooks have to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from amplifier_app_cli.chat.screen import Screen
from amplifier_app_cli.ui.plain import plain

#: Shows thinking, tools and tokens, all of which a chat shows by itself.
_SHOWN_ANYWAY: Final = "hook:hooks-streaming-ui"


class TerminalDisplay:
    """Be the display system of a session."""

    def __init__(self, screen: Screen, scrub: Callable[[Any], Any] = lambda value: value) -> None:
        self._screen = screen
        self.scrub = scrub

    def show_message(self, message: str, level: Literal["info", "warning", "error"], source: str = "hook") -> None:
        """Show a message with who says it."""
        if source == _SHOWN_ANYWAY:
            return
        text = plain(f"{source.removeprefix('hook:')}: {self.scrub(str(message))}")
        self._screen.show(self._screen.ink("dim" if level == "info" else "bad", text))
