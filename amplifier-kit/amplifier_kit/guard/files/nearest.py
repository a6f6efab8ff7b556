"""Find the lines that come nearest to what was looked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["nearest_line"]

_AROUND: Final = 2
_MOST_COMPARED: Final = 20_000
_LONGEST: Final = 300


def nearest_line(have: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the index of the line where `wanted` may have been meant, white space aside; None when nothing is like it.

    Looks at a bounded number of lines.
    """
    wanted = [line for line in wanted if line.strip()]
    if not wanted:
        return None
    at = _same_lines(have, wanted)
    return _similar_line(have, wanted) if at is None else at


def _same_lines(have: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return where most lines of `wanted` stand close together, white space aside."""
    sought = {line.strip() for line in wanted}
    hits = [number for number, line in enumerate(have) if line.strip() in sought]
    if not hits:
        return None
    reach = len(wanted) + _AROUND
    best, most, end = hits[0], 0, 0
    for begin, number in enumerate(hits):
        end = max(end, begin)
        while end < len(hits) and hits[end] <= number + reach:
            end += 1
        different = len({have[hit].strip() for hit in hits[begin : min(end, begin + 200)]})
        if different > most:
            best, most = number, different
    return best


def _similar_line(have: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the line that is most like the longest line of `wanted`, if it is much like it."""
    from difflib import SequenceMatcher

    longest = max((line.strip() for line in wanted), key=len)[:_LONGEST]
    matcher = SequenceMatcher(autojunk=False, b=longest)
    best, most = None, 0.6
    for number, line in enumerate(have[:_MOST_COMPARED]):
        matcher.set_seq1(line.strip()[:_LONGEST])
        if matcher.real_quick_ratio() > most and matcher.quick_ratio() > most and (ratio := matcher.ratio()) > most:
            best, most = number, ratio
    return best
