"""Hold rules against what sessions have done: what they would have asked or denied then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_foundation.policy.past import PastAction, counted
from amplifier_foundation.policy.permissions import Judgement, Permissions

#: How an action of the past compares with the rules of now.
STRICTER: Final = "stricter"
MILDER: Final = "milder"
SAME: Final = "same"
_ORDER: Final = {"unjudged": 0, "allowed": 0, "asked": 1, "denied": 2}
_NOW: Final = {"allow": 0, "ask": 1, "deny": 2}


class Replayed(NamedTuple):
    """One action of the past, how often it happened, and what the rules say of it."""

    past: PastAction
    times: int
    now: Judgement

    @property
    def change(self) -> str:
        """Whether the rules are stricter or milder than what happened."""
        then, now = _ORDER[self.past.then], _NOW[self.now.verdict]
        return SAME if then == now else STRICTER if now > then else MILDER


class Backtest(NamedTuple):
    """What rules would have done."""

    replayed: tuple[Replayed, ...]
    #: How often each pair of then and now occurred.
    counts: dict[tuple[str, str], int]

    @property
    def total(self) -> int:
        """How many actions there were."""
        return sum(self.counts.values())

    def how_many(self, then: str | None = None, now: str | None = None) -> int:
        """Return how many actions were treated so then and would be treated so now."""
        return sum(count for (was, is_), count in self.counts.items() if then in (None, was) and now in (None, is_))

    def examples(self, change: str, most: int | None = None) -> tuple[Replayed, ...]:
        """Return what would be stricter, milder or the same, the most frequent first."""
        found = sorted((each for each in self.replayed if each.change == change), key=lambda each: -each.times)
        return tuple(found[:most])


def backtest(actions: Iterable[PastAction], permissions_of: Callable[[Path], Permissions]) -> Backtest:
    """Judge actions of the past by rules; `permissions_of` gives those of a project, and is asked once for each.

    Paths are looked at as they are today: a link that was made since leads where it leads now.
    """
    known: dict[Path, Permissions] = {}
    replayed = []
    counts: Counter[tuple[str, str]] = Counter()
    for past, count in counted(actions):
        if past.project not in known:
            known[past.project] = permissions_of(past.project)
        now = known[past.project].judge(past.action, past.details)
        replayed.append(Replayed(past, count, now))
        counts[past.then, now.verdict] += count
    return Backtest(tuple(replayed), dict(counts))
