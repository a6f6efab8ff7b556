"""Make foreign text safe inside a reminder: on one line, not too long, and unable to end the reminder."""

from __future__ import annotations

from amplifier_kit.reminders import without_tags


def one_line(text: str, limit: int = 200) -> str:
    """Return `text` on one line of at most `limit` characters; unprintable characters become `?`."""
    shown = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return without_tags("".join(char if char.isprintable() else "?" for char in shown))
