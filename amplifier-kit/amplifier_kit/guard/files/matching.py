"""Find lines that differ from what was asked for in white space only, and tell how they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["LineMatch", "find_lines"]


@dataclass(frozen=True)
class LineMatch:
    """Lines that match, from the line with index `first` on."""

    first: int
    kind: Literal["exact", "trailing", "indented"]
    #: Indentation that the lines have more than what was asked for, or less.
    more: str = ""
    less: str = ""

    @property
    def difference(self) -> str:
        """Return how the lines differ from what was asked for, for people; empty when they do not."""
        return {
            "exact": "",
            "trailing": "which differ in white space at line ends",
            "indented": "which are indented differently, so the new lines were indented as they are",
        }[self.kind]

    def fits(self, new: Sequence[str]) -> bool:
        """Tell whether new lines can be indented as those are."""
        return all(line.startswith(self.less) for line in new if line.strip())

    def indent(self, line: str) -> str:
        """Return a new line, indented as those are."""
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
