"""Show what modules have to say while a prompt runs: on standard error, where no result is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_app_cli.ui.plain import plain


class RunDisplay:
    """Be the display system of a run."""

    def __init__(self, inform: Callable[[str], None], scrub: Callable[[Any], Any]) -> None:
        """Tell by `inform`, which says nothing when the user wants quiet, what `scrub` has taken secrets out of."""
        self._inform = inform
        self._scrub = scrub

    def show_message(self, message: str, level: str = "info", source: str = "") -> None:
        """Show one message; a warning or an error says so."""
        mark = f"{level}: " if level in ("warning", "error") else ""
        self._inform(plain(f"{mark}{self._scrub(message)}"))
