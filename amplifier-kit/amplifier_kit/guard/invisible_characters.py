"""Characters that are invisible or look like a blank, and JSON with them escaped: the same value, shown as it is."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

#: Categories of controls, marks of direction, joiners, tags, surrogates, private and unassigned characters, separators
#: of lines and paragraphs, and blanks of any width.
INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
#: Unicode's Default_Ignorable_Code_Point, some of which are letters and marks, and the blank of Braille.
_BLANK: Final = (
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_NOT_PRINTABLE_ASCII: Final = r"[^\x00-\x7e]"


@lru_cache(maxsize=4096)
def is_unseen(character: str) -> bool:
    """Return whether a character is invisible, or looks like an ordinary blank without being one."""
    import unicodedata  # a library that most runs need not load

    return character != " " and (
        unicodedata.category(character) in INVISIBLE or re.match(_BLANK, character) is not None
    )


def printable_json(text: str) -> str:
    """Return JSON text as the same document, with every invisible character escaped.

    JSON itself escapes the controls of ASCII, in texts and in keys; outside of them it has only blanks and newlines.
    """
    return re.sub(_NOT_PRINTABLE_ASCII, lambda found: _shown(found[0]), text)


@lru_cache(maxsize=4096)
def _shown(character: str) -> str:
    if not is_unseen(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
