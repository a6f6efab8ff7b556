"""Notice a model that goes round in circles: the same calls, with the same results, again and again.

Arguments alone prove nothing (reading a log twice is fine when the log has grown), so results are compared too. Tools
that poll by nature are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

__all__ = ["Circle", "LoopGuard", "Step"]

#: Circles of up to so many iterations are noticed.
_LONGEST: Final = 4


class Step(NamedTuple):
    """One tool call of an iteration, with what came of it."""

    tool_name: str
    arguments: Any
    result: Any


class Circle(NamedTuple):
    """Say what repeats: how often, over how many iterations, with which tools, and whether that is enough to stop."""

    repetitions: int
    period: int
    tools: list[str]
    must_stop: bool


class LoopGuard:
    """Watch the iterations of one turn; `warn` and `stop` say after how many repetitions, None for never."""

    def __init__(self, warn: int | None, stop: int | None) -> None:
        self._warn = warn
        self._stop = stop
        most = max(warn or 0, stop or 0)
        self._seen: deque[tuple[str, tuple[str, ...]]] = deque(maxlen=most * _LONGEST)

    def record(self, steps: Iterable[Step]) -> Circle | None:
        """Take note of one iteration; return the circle when it calls for a first warning or for the end.

        An iteration without steps says nothing and is not counted.
        """
        steps = list(steps)
        if not steps or not self._seen.maxlen:
            return None
        self._seen.append((_fingerprint(steps), tuple(step.tool_name for step in steps)))
        for period in range(1, _LONGEST + 1):
            repetitions, is_whole = self._repetitions(period)
            if self._stop is not None and repetitions >= self._stop:
                return self._circle(repetitions, period, must_stop=True)
            if self._warn is not None and repetitions >= self._warn:
                is_news = repetitions == self._warn and is_whole
                return self._circle(repetitions, period, must_stop=False) if is_news else None
        return None

    def _repetitions(self, period: int) -> tuple[int, bool]:
        """Return how often the last `period` iterations stand at the end, and whether the count just went up."""
        seen = [fingerprint for fingerprint, _ in self._seen]
        matching = 0
        while matching + period < len(seen) and seen[-1 - matching] == seen[-1 - matching - period]:
            matching += 1
        return matching // period + 1, matching % period == 0

    def _circle(self, repetitions: int, period: int, *, must_stop: bool) -> Circle:
        tools = [name for _, names in list(self._seen)[-period:] for name in names]
        return Circle(repetitions, period, list(dict.fromkeys(tools)), must_stop)


def _fingerprint(steps: list[Step]) -> str:
    try:
        text = json.dumps(steps, sort_keys=True, default=str)
    except (TypeError, ValueError):  # keys that cannot be sorted, or what refers to itself
        text = repr(steps)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
