"""Make text safe to show: what a model or a tool says must not steer the terminal."""

from __future__ import annotations

import re

#: Escape sequences, control characters, and the marks that reverse the direction of what follows.
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
_C1 = re.compile(r"[\x7f-\x9f]")


def plain(text: str) -> str:
    """Return the text without terminal escapes and control characters; tab and newline stay."""
    return _CONTROL.sub("", text)


def plain_json(text: str) -> str:
    """Return JSON text with the control characters escaped that JSON leaves as they are."""
    return _C1.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
