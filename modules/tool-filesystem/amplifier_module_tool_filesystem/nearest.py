"""Show a model the lines that are most similar to its old_string."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from amplifier_kit.guard.files.text import nearest_line

__all__ = ["nearest"]

_AROUND: Final = 2
_MOST_LINES: Final = 24
_LONGEST: Final = 300
_NUMBERED: Final = re.compile(r"\s*\d+\t")


def nearest(have: Sequence[str], old: str) -> str:
    """Return advice, with the numbered lines of the file that resemble `old` most, if any do."""
    wanted = [line for line in old.replace("\r\n", "\n").split("\n") if line.strip()]
    if not wanted:
        return "It is nothing but white space. Add lines around it."
    if all(_NUMBERED.match(line) for line in wanted):
        return "It begins with line numbers: those are not part of the file."
    at = nearest_line(have, wanted)
    if at is None:
        return "Nothing in the file resembles it. Read the file again."
    if have and not have[-1]:
        have = have[:-1]  # after the last line end
    length = min(old.count("\n") + 1, _MOST_LINES)
    first, last = max(at - _AROUND, 0), min(at + length + _AROUND, len(have))
    shown = "\n".join(f"{number + 1:6d}\t{have[number][:_LONGEST]}" for number in range(first, last))
    return f"The nearest lines are:\n{shown}\nCopy old_string from the file, white space included."
