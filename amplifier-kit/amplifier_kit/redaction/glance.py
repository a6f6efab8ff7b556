"""Look at a text quickly, to find out whether it is worth a close look.

Searching a text for one word is far faster than matching a pattern everywhere in it, and faster still in the few long
words of a text: secrets are long.
"""

from __future__ import annotations

import re
from operator import itemgetter

#: Characters that tokens, encoded bytes, paths and addresses consist of; all others separate words.
_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.%~!$")
_TO_WORDS = bytes(byte if byte in _WORD else 32 for byte in range(256))
#: Letters and digits only: `key-1/b` are the words `key`, `1` and `b`.
_TO_PIECES = bytes(byte if chr(byte).isalnum() and byte < 128 else 32 for byte in range(256))
_TO_DIGITS = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))

LONG = 8
VERY_LONG = 15
HEAD = 4
_head = itemgetter(slice(HEAD))

#: What ends in letters or digits that are no part of the word behind it: `%3D` in URLs, the colours of a terminal.
_QUOTED = re.compile(rb"%[0-9A-Fa-f]{2}")
_COLOUR = re.compile(rb"\[[0-9;]{0,12}m")


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
        folded = text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
    return folded


class Glance:
    """What a first look at a text shows."""

    __slots__ = ("_content", "_joined", "_words", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._content = text.encode("utf-8", "replace")
        self._words: list[bytes] | None = None
        self._joined: dict[int, str] = {}

    def long_words(self, least: int = LONG) -> str:
        """Return the words of at least that many characters, never ones shorter than LONG."""
        joined = self._joined.get(least)
        if joined is None:
            if self._words is None:
                self._words = _long_words(self._content)
            words = self._words if least == LONG else [word for word in self._words if len(word) >= least]
            joined = self._joined[least] = b" ".join(words).decode("ascii")
        return joined

    def heads(self) -> set[bytes]:
        """Return the first HEAD characters of every piece, of letters and digits, in the very long words."""
        words = self.long_words(VERY_LONG).encode("ascii")
        escaped = b"\\" in self._content
        if b"\x1b" in self._content or (escaped and b"1b[" in self._content):
            words = b" ".join(_long_words(_COLOUR.sub(b" ", self._content)))
        if b"%" in words:
            words = _QUOTED.sub(b" ", words)
        pieces = words.translate(_TO_PIECES).split()
        heads = set(map(_head, pieces))
        if escaped:
            # Text that was escaped once more has `\\n` for a line break.
            heads.update([piece[1 : HEAD + 1] for piece in pieces if piece[0] in b"nrt"])
        return heads

    def digits(self) -> bytes:
        """Return the text with a zero for every digit."""
        return self._content.translate(_TO_DIGITS)


def _long_words(content: bytes) -> list[bytes]:
    return [word for word in content.translate(_TO_WORDS).split() if len(word) >= LONG]
