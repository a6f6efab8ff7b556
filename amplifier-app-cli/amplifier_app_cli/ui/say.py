"""Say things to the person at the terminal: on standard error, which may be gone."""

from __future__ import annotations

import sys

from amplifier_app_cli.ui.plain import plain


def say(text: str) -> None:
    """Write a line to standard error; what cannot be said there cannot be said at all."""
    stream = sys.stderr
    if stream is None:
        return
    try:
        stream.write(f"{plain(text)}\n")
        stream.flush()
    except (OSError, ValueError):
        # Closed, full, or nobody reads it: there is no other place to complain to.
        pass


def complain(code: int, message: str) -> int:
    """Say what went wrong and return the exit code."""
    say(f"amplifier: {message}")
    return code
