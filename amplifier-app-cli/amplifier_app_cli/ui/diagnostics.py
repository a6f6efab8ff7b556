"""Show warnings of the libraries to the person at the terminal: what is wrong, not where in our code."""

from __future__ import annotations

import logging

from amplifier_app_cli.ui.say import say


class _Said(logging.Handler):
    """Say every message once, without its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception:  # a message whose arguments do not fit it
            text = str(record.msg)
        if text not in self._told:
            self._told.add(text)
            say(f"amplifier: {text}")


def show_warnings() -> None:
    """Say what the libraries warn of from now on."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_Said())
