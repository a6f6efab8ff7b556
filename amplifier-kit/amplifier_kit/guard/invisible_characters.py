"""Know which characters cannot be seen, and escape them in JSON: its value stays, and no reader is led astray by it."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

#: Controls, marks of direction, joiners, tags, halves of characters, private and unassigned ones, separators of lines
#: and paragraphs, and blanks of any width: none of them looks like what it is.
INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
#: Unicode's Default_Ignorable_Code_Point, some of which are letters and marks, and the blank of Braille.
_BLANK: Final = frozenset(
    chr(code)
    for first, last in (
        (0x00AD, 0x00AD),
        (0x034F, 0x034F),
        (0x061C, 0x061C),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x200B, 0x200F),
        (0x202A, 0x202E),
        (0x2060, 0x206F),
        (0x2800, 0x2800),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFEFF, 0xFEFF),
        (0xFFA0, 0xFFA0),
        (0xFFF0, 0xFFF8),
        (0x1BCA0, 0x1BCA3),
        (0x1D173, 0x1D17A),
        (0xE0000, 0xE0FFF),
    )
    for code in range(first, last + 1)
)
_NOT_PRINTABLE_ASCII: Final = re.compile(r"[^\x00-\x7e]")


@lru_cache(maxsize=4096)
def is_unseen(character: str) -> bool:
    """Tell whether a character cannot be seen, or looks like an ordinary blank and is none."""
    return character != " " and (unicodedata.category(character) in INVISIBLE or character in _BLANK)


def printable_json(text: str) -> str:
    """Return JSON text as the same document, with every character escaped that cannot be seen.

    JSON itself escapes the controls of ASCII, in texts and in keys; outside of them it has only blanks and newlines.
    """
    return _NOT_PRINTABLE_ASCII.sub(lambda found: _shown(found[0]), text)


@lru_cache(maxsize=4096)
def _shown(character: str) -> str:
    if not is_unseen(character):
        return character
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
