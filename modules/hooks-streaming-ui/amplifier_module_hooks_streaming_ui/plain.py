"""Make text safe to show: the output of a model, a tool or a file must not control the terminal."""

from __future__ import annotations

import re
from typing import Final

# Whole escape sequences first, so that no part of them remains: control sequences (7 and 8 bit), terminated strings
# (titles, links, device control), and the short ones.
_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# Then remaining control characters, and marks that change the order in which letters are shown.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LINE_END: Final = re.compile("\r\n?|[\u2028\u2029]")
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")


def plain(text: str) -> str:
    """Return the text without terminal escapes and control characters; tab and newline stay."""
    text = _SEQUENCE.sub("", _LINE_END.sub("\n", text))
    return _HALF_CHARACTER.sub("\ufffd", _CONTROL.sub("", text))
