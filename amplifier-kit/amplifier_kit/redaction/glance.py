"""Look at a text quickly, to find out whether it is worth a close look.

Searching a text for one word is far faster than matching a pattern everywhere in it, and faster still in the few long
words of a text: secrets are long.
"""

from __future__ import annotations

from functools import cached_property

#: Characters that tokens, encoded bytes, paths and addresses consist of; all others separate words.
_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.%")
_TO_WORDS = bytes(byte if byte in _WORD else 32 for byte in range(256))
_TO_DIGITS = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))

LONG = 8


def is_word(text: str) -> bool:
    """Tell whether a text has no character that separates words."""
    return text.isascii() and _WORD.issuperset(text.encode())


class Glance:
    """What a first look at a text shows."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def folded(self) -> str:
        """The text in lower case, with every character where it was."""
        folded = self.text.lower()
        if len(folded) != len(self.text):
            # One letter becomes two in lower case: leave those beyond ASCII alone.
            folded = "".join(character.lower() if character.isascii() else character for character in self.text)
        return folded

    @cached_property
    def long_words(self) -> str:
        """The words of at least LONG characters."""
        words = self._content.translate(_TO_WORDS).split()
        return b" ".join([word for word in words if len(word) >= LONG]).decode("ascii")

    @cached_property
    def digits(self) -> bytes:
        """The text with a zero for every digit."""
        return self._content.translate(_TO_DIGITS)

    @cached_property
    def _content(self) -> bytes:
        return self.text.encode("utf-8", "replace")
