"""Escape in JSON what cannot be seen: its value stays, and no terminal, editor or reader is led astray by it."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

#: Controls beyond ASCII, marks of direction, joiners, tags, halves of characters, private and unassigned ones, and
#: separators of lines and paragraphs.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
#: Characters that are drawn as nothing though they are letters, marks or symbols; selectors of variants among them.
_BLANK = frozenset(
    [*"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"]
    + [chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))]
)
_NOT_PRINTABLE_ASCII = re.compile(r"[^\x00-\x7e]")


def printable_json(text: str) -> str:
    """Return JSON text as the same document, with every character escaped that cannot be seen.

    JSON itself escapes the controls of ASCII, in texts and in keys; outside of them it has only blanks and newlines.
    """
    return _NOT_PRINTABLE_ASCII.sub(lambda found: _shown(found[0]), text)


@lru_cache(maxsize=4096)
def _shown(character: str) -> str:
    if unicodedata.category(character) not in _UNSEEN and character not in _BLANK:
        return character
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
