"""Look at a text quickly, to find out whether it is worth a close look.

Searching a text for one word is far faster than matching a pattern everywhere in it, and faster still in the few long
words of a text: secrets are long.
"""

from __future__ import annotations

#: Characters that tokens, encoded bytes, paths and addresses consist of; all others separate words.
_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.%")
_TO_WORDS = bytes(byte if byte in _WORD else 32 for byte in range(256))
_TO_DIGITS = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))

LONG = 8
VERY_LONG = 15


def is_word(text: str) -> bool:
    """Tell whether a text has no character that separates words."""
    return text.isascii() and _WORD.issuperset(text.encode())


def any_in(words: tuple[str, ...], text: str) -> bool:
    """Tell whether one of the words is part of the text."""
    for word in words:  # noqa: SIM110  # a generator would cost more than the search
        if word in text:
            return True
    return False


def fold(text: str) -> str:
    """Return a text in lower case, with every character where it was."""
    folded = text.lower()
    if len(folded) != len(text):
        # One letter becomes two in lower case: leave those beyond ASCII alone.
        folded = "".join(character.lower() if character.isascii() else character for character in text)
    return folded


class Glance:
    """What a first look at a text shows."""

    __slots__ = ("_content", "_words", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._content = text.encode("utf-8", "replace")
        self._words: list[bytes] | None = None

    def long_words(self, least: int = LONG) -> str:
        """Return the words of at least that many characters, never ones shorter than LONG."""
        if self._words is None:
            self._words = [word for word in self._content.translate(_TO_WORDS).split() if len(word) >= LONG]
        words = self._words if least == LONG else [word for word in self._words if len(word) >= least]
        return b" ".join(words).decode("ascii")

    def digits(self) -> bytes:
        """Return the text with a zero for every digit."""
        return self._content.translate(_TO_DIGITS)
