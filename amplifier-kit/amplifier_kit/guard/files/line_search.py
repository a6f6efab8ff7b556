"""Find lines in a file by their text: exactly, with other white space, or the most similar ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["LineMatch", "find_lines", "nearest_line"]

_AROUND: Final = 2
_MOST_COMPARED: Final = 20_000
_LONGEST: Final = 300


@dataclass(frozen=True)
class LineMatch:
    """Lines that match, from the line with index `first` on."""

    first: int
    kind: Literal["exact", "trailing", "indented"]
    #: Indentation that the found lines have in addition to the wanted ones, or lack.
    more: str = ""
    less: str = ""

    @property
    def difference(self) -> str:
        """Return how the lines differ from the wanted ones, for people; empty for an exact match."""
        return {
            "exact": "",
            "trailing": "which differ in white space at line ends",
            "indented": "which are indented differently, so the new lines were indented as they are",
        }[self.kind]

    def fits(self, new: Sequence[str]) -> bool:
        """Tell whether new lines can be indented like the found ones."""
        return all(line.startswith(self.less) for line in new if line.strip())

    def indent(self, line: str) -> str:
        """Return a new line, indented like the found ones."""
        return self.more + line.removeprefix(self.less) if line.strip() else line


def find_lines(have: Sequence[str], wanted: Sequence[str], start: int = 0, stop: int | None = None) -> list[LineMatch]:
    """Return all places from line `start` on where `wanted` stands, of the closest kind that is found at all.

    Kinds: exactly; with other white space at line ends; with one and the same indentation more or less on every line.
    """
    last = (len(have) if stop is None else stop) - len(wanted)
    if not wanted:
        return []
    first = wanted[0].strip()
    found: dict[str, list[LineMatch]] = {"exact": [], "trailing": [], "indented": []}
    for number in range(start, last + 1):
        if have[number].strip() == first:
            match = _compared(number, have[number : number + len(wanted)], wanted)
            if match is not None:
                found[match.kind].append(match)
    return found["exact"] or found["trailing"] or found["indented"]


def _compared(first: int, there: Sequence[str], wanted: Sequence[str]) -> LineMatch | None:
    pairs = [(one.rstrip(), other.rstrip()) for one, other in zip(there, wanted, strict=True)]
    if all(one == other for one, other in pairs):
        return LineMatch(first, "exact" if list(there) == list(wanted) else "trailing")
    if any(one.lstrip() != other.lstrip() for one, other in pairs):
        return None
    texts = [pair for pair in pairs if pair[0]]
    more = {one[: len(one) - len(other)] if one.endswith(other) else "" for one, other in texts}
    if len(more) == 1 and "" not in more:
        return LineMatch(first, "indented", more=more.pop())
    less = {other[: len(other) - len(one)] if other.endswith(one) else "" for one, other in texts}
    return LineMatch(first, "indented", less=less.pop()) if len(less) == 1 and "" not in less else None


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
