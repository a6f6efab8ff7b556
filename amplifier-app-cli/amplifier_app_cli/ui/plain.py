"""Make text safe to show: what a model or a tool says must not steer the terminal."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


def plain(text: str) -> str:
    """Return the text without terminal escapes and control characters; tab and newline stay."""
    return _CONTROL.sub("", text)
