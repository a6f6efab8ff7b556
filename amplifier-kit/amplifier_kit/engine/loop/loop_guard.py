"""Detect a model that repeats itself: the same tool calls with the same results, repeatedly.

Arguments alone prove nothing (reading a log twice is fine when the log has grown), so results are compared too. The
calls of tools that poll by nature (`polling = True`) are left out by the caller.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from amplifier_kit.named_tuple import NamedTuple

#: The longest cycle that is detected, in iterations.
_LONGEST: Final = 4


class Step(NamedTuple):
    """One tool call of an iteration and its result."""

    tool_name: str
    arguments: Any
    result: Any


class Repetition(NamedTuple):
    """A cycle of `period` iterations that occurred `times` times, and whether the turn must end because of it."""

    times: int
    period: int
    tools: list[str]
    must_stop: bool


class LoopGuard:
    """Watch the iterations of one turn; `warn` and `stop` are numbers of repetitions, None for never."""

    def __init__(self, warn: int | None, stop: int | None) -> None:
        self._warn = warn
        self._stop = stop
        most = max(warn or 0, stop or 0)
        self._seen: deque[tuple[str, list[str]]] = deque(maxlen=most * _LONGEST)

    def record(self, steps: Sequence[Step]) -> Repetition | None:
        """Record one iteration; return the repetition when it deserves a first warning or must end the turn.

        An iteration without steps is not counted.
        """
        if not steps or not self._seen.maxlen:
            return None
        self._seen.append((_fingerprint(steps), [step.tool_name for step in steps]))
        for period in range(1, _LONGEST + 1):
            count, is_complete = self._count(period)
            must_stop = self._stop is not None and count >= self._stop
            if must_stop or (self._warn is not None and count >= self._warn):
                is_first_warning = count == self._warn and is_complete
                tools = [name for _, names in list(self._seen)[-period:] for name in names]
                repetition = Repetition(count, period, list(dict.fromkeys(tools)), must_stop)
                return repetition if must_stop or is_first_warning else None
        return None

    def _count(self, period: int) -> tuple[int, bool]:
        """Return how often the last `period` iterations occurred in a row, and whether one occurrence just ended."""
        seen = [fingerprint for fingerprint, _ in self._seen]
        matching = 0
        while matching + period < len(seen) and seen[-1 - matching] == seen[-1 - matching - period]:
            matching += 1
        return matching // period + 1, matching % period == 0


def _fingerprint(steps: Sequence[Step]) -> str:
    text = json.dumps(steps, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
