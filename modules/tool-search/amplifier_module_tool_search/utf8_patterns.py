"""Keep patterns from matching bytes of invalid UTF-8, as ripgrep does: only a literal byte matches them."""

from __future__ import annotations

import re
from typing import Final

#: How Python decodes such a byte.
_BYTE: Final = r"[\udc80-\udcff]"
#: In order: an escape, a class (a ] that comes first is part of it), a dot.
_ITEM: Final = re.compile(r"\\(?s:.)|\[\^?\]?(?:\\(?s:.)|[^\]\\])*\]|\.")
#: Where a dot or a bracket may be part of a remark.
_REMARKS: Final = re.compile(r"\(\?[a-zA-Z]*x|\(\?#")


def valid_only(pattern: str, flags: int) -> re.Pattern[str]:
    """Compile a pattern that compiles, so that dots, classes and negations pass over no such byte.

    One with remarks in it is taken as it is.
    """
    if _REMARKS.search(pattern):
        return re.compile(pattern, flags)
    return re.compile(_ITEM.sub(_guarded, pattern), flags)


def _guarded(item: re.Match[str]) -> str:
    text = item[0]
    if text[0] == "\\" and text[1] not in "SWD":
        return text
    return f"(?:(?!{_BYTE}){text})"
