"""Decide cheaply whether a text may hold a secret, before any pattern is matched against all of it.

Searching a text for one word is far faster than matching a pattern everywhere in it, and faster still in the few long
words of a text: secrets are long. The masks and the cache of compiled patterns are here too, for all detectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from operator import itemgetter

#: Characters that tokens, encoded bytes, paths and addresses consist of; all others separate words.
_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.%~!$")
#: An `a` for each of them, and a space for each of the others: long words are long runs.
_TO_RUNS = bytes(97 if byte in _WORD else 32 for byte in range(256))
#: Letters and digits only: `key-1/b` are the words `key`, `1` and `b`.
_TO_PIECES = bytes(byte if chr(byte).isalnum() and byte < 128 else 32 for byte in range(256))
_TO_DIGITS = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))

LONG = 8
VERY_LONG = 15
HEAD = 4
_head = itemgetter(slice(HEAD))

#: `%3D` in URLs does not belong to the word after it.
_QUOTED = re.compile(rb"%[0-9A-Fa-f]{2}")


def is_word(text: str) -> bool:
    """Return whether a text has no character that separates words."""
    return text.isascii() and _WORD.issuperset(text.encode())


def any_in(words: tuple[str, ...], text: str) -> bool:
    for word in words:  # noqa: SIM110  # a generator would cost more than the search
        if word in text:
            return True
    return False


def fold(text: str) -> str:
    """Return a text in lower case and of the same length."""
    folded = text.lower()
    if len(folded) != len(text):  # some letters beyond ASCII become two
        folded = text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
    return folded


class Glance:
    """A first look at a text: its long words and their beginnings, computed on demand."""

    __slots__ = ("_content", "_heads", "_words", "has_escapes", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._content = text.encode("utf-8", "replace")
        self._words: dict[int, str] = {}
        self._heads: set[bytes] | None = None
        #: Whether there may be `\\n` or the colours of a terminal, which look like parts of words.
        self.has_escapes = "\\" in text or "\x1b" in text

    def long_words(self, least: int = LONG) -> str:
        """Return the words of at least that many characters."""
        words = self._words.get(least)
        if words is None:
            words = self._words[least] = b" ".join(_long_words(self._content, least)).decode("ascii")
        return words

    def heads(self) -> set[bytes]:
        """Return the first HEAD characters of every piece, of letters and digits, in the very long words."""
        if self._heads is None:
            self._heads = self._find_heads()
        return self._heads

    def _find_heads(self) -> set[bytes]:
        words = self.long_words(VERY_LONG).encode("ascii")
        if b"%" in words:
            words = _QUOTED.sub(b" ", words)
        pieces = words.translate(_TO_PIECES).split()
        heads = set(map(_head, pieces))
        if self.has_escapes:
            # In escaped text a line break is `\\n`; colours are `[32m`.
            heads.update([piece[1 : HEAD + 1] for piece in pieces if piece[0] in b"nrt"])
            coloured = [piece.lstrip(b"0123456789") for piece in pieces if b"m" in piece[:HEAD]]
            heads.update([piece[1 : HEAD + 1] for piece in coloured if piece.startswith(b"m")])
        return heads

    def digits(self) -> bytes:
        """Return the text with a zero for every digit."""
        return self._content.translate(_TO_DIGITS)


def _long_words(content: bytes, least: int) -> list[bytes]:
    runs = content.translate(_TO_RUNS)
    run = b"a" * least
    words: list[bytes] = []
    start = runs.find(run)
    while start >= 0:
        end = runs.find(b" ", start)
        if end < 0:
            end = len(runs)
        words.append(content[start:end])
        start = runs.find(run, end)
    return words


@cache
def pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return the compiled pattern; only for the few sources that are written in this package."""
    return re.compile(source, flags)


MASK = "[REDACTED]"
PII_MASK = "[REDACTED:PII]"
MASKS = (MASK, PII_MASK)


def mask_spans(text: str, spans: Iterable[tuple[int, int]], mask: str = MASK) -> tuple[str, int]:
    """Return a text with these parts of it masked, and how many there were; overlapping ones become one."""
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start >= done:
            pieces += (text[done:start], mask)
        done = max(done, end)
    return ("".join((*pieces, text[done:])), len(pieces) // 2) if pieces else (text, 0)
