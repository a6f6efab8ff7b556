"""Reminders: text in a request that is for the model and not from the user, between `<system-reminder>` tags."""

from __future__ import annotations

import re
from typing import Final

_OPENING: Final = "<system-reminder"
_CLOSING: Final = "</system-reminder>"
_TAG: Final = r"(?i)<(?=[\s/]*system-reminder)"
_CUT: Final = "(cut here)"


def reminder(text: str, source: str = "", **attributes: str) -> str:
    """Return a text as a reminder; `source` names what adds it."""
    named = {"source": source, **attributes} if source else attributes
    written = "".join(f' {key}="{value}"' for key, value in named.items())
    return f"{_OPENING}{written}>\n{text}\n{_CLOSING}"


def fitting_reminder(text: str, source: str, limit: int | None) -> str | None:
    """Return a reminder of at most `limit` characters, its text cut if need be; None without text or space.

    The kernel rejects all injections of an event when one of them exceeds the limit of the session.
    """
    whole = reminder(text, source)
    if not text or limit is None or len(whole) <= limit:
        return whole if text else None
    space = limit - len(reminder(f"\n{_CUT}", source))
    return reminder(f"{text[:space]}\n{_CUT}", source) if space > 0 else None


def is_reminder(text: str) -> bool:
    """Return whether a text starts with a reminder."""
    return text.lstrip().startswith(_OPENING)


def without_tags(text: str) -> str:
    """Return a text that can neither end the reminder around it nor start another."""
    return re.sub(_TAG, "‹", text)
