"""How many messages a server may send."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: At once, and per second.
BURST: Final = 5000
RATE: Final = 1000.0


class Allowance:
    """Count messages against a rate, with room for many at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left, self._since = float(BURST), clock()

    def take(self, count: int = 1) -> bool:
        """Take in so many messages; return False when they are too many."""
        now = self._clock()
        self._left = min(float(BURST), self._left + (now - self._since) * RATE) - count
        self._since = now
        return self._left >= 0
