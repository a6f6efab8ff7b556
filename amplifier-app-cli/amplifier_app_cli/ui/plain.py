"""Make text safe to show: what a model or a tool says must not steer the terminal."""

from __future__ import annotations

import re
import unicodedata

#: Escape sequences, control characters, and the marks that reverse the direction of what follows.
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
#: Kinds of characters that cannot be seen: controls, marks, separators of lines, and what no character is.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def plain(text: str) -> str:
    """Return the text without terminal escapes and control characters; tab and newline stay."""
    return _CONTROL.sub("", text)


def visible(text: str) -> str:
    """Return the text with everything in it: what a terminal would obey or not show is written out, as in `\\x1b`.

    Tab and newline stay. This is for what somebody is to decide on: nothing of it may be hidden.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_seen(character) else _escaped(character) for character in text)


def _is_seen(character: str) -> bool:
    return character in "\t\n" or unicodedata.category(character) not in _UNSEEN


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
