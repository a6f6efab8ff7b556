"""Part two of the benchmark: the scenarios of amplifier-core/tests/compat on both kernels, live and side by side."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from document import ROOT

sys.path.append(str(ROOT / "amplifier-core" / "tests"))

from compat.answers import Difference, Intended, compare, read_answers, read_intended, stale, unlisted
from compat.play import play_all


@dataclass(frozen=True)
class Comparison:
    """Everything part two found."""

    scenarios: int
    differences: list[Difference]
    intended: list[Intended]
    #: where the peer answers otherwise than was recorded; `ours` is the record
    changed: list[Difference]

    @property
    def unlisted(self) -> list[Difference]:
        """Return the differences that no entry of intended.toml covers."""
        return unlisted(self.differences, self.intended)

    @property
    def stale(self) -> list[Intended]:
        """Return the entries that cover no difference."""
        return stale(self.differences, self.intended)


def play_and_compare(ours: Path, peer: Path) -> Comparison:
    """Play everything on the kernels of two interpreters, side by side, and compare."""
    with ThreadPoolExecutor(2) as pool:
        left, right = pool.map(play_all, (ours, peer))
    return Comparison(len(left), compare(left, right), read_intended(), compare(read_answers(), right))


def render(result: Comparison) -> str:
    """Return the section of the document."""
    differing = {difference.scenario for difference in result.differences}
    unexpected = {difference.scenario for difference in result.unlisted}
    counts = (
        f"{result.scenarios} scenarios ran unchanged on both kernels. In {result.scenarios - len(differing)} of them "
        f"everything observed is equal; {len(differing - unexpected)} differ on purpose; unlisted differences: "
        f"{len(result.unlisted)}."
    )
    lines = [
        counts,
        "",
        "Differences on purpose (the decisions are those of the kernel's contract):",
        "",
    ]
    grouped: dict[tuple[str, str], set[str]] = {}
    for entry in result.intended:
        names = {difference.scenario for difference in result.differences if entry.covers(difference)}
        grouped.setdefault((entry.decision, entry.reason), set()).update(names)
    for (decision, reason), names in grouped.items():
        where = ", ".join(f"`{name}`" for name in sorted(names)) or "no longer seen"
        lines.append(f"- **{decision}** {reason} ({where})")
    lines += [f"- **unlisted** `{d.scenario}` at `{d.place}`" for d in result.unlisted]
    return "\n".join(lines)
