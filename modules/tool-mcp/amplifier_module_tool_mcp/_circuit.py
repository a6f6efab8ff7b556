"""Leave a server alone that keeps failing, and give it one more chance after a while."""

from __future__ import annotations

import time
from collections.abc import Callable

from amplifier_module_tool_mcp._config import Retry


class Circuit:
    """Count failures in a row: after so many of them nothing is tried until the time is over; then once."""

    def __init__(self, retry: Retry, clock: Callable[[], float] = time.monotonic) -> None:
        self._retry = retry
        self._clock = clock
        self.failures = 0
        self._last = 0.0

    def failed(self) -> None:
        """Note that the server was of no use."""
        self.failures += 1
        self._last = self._clock()

    def succeeded(self) -> None:
        """Note that the server has answered a call."""
        self.failures = 0

    def wait(self) -> float:
        """Return the seconds until the server may be tried again; 0 for now."""
        if self.failures < self._retry.failures:
            return 0.0
        return max(0.0, self._last + self._retry.cooldown - self._clock())

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after the n-th attempt in a row."""
        return min(self._retry.max_delay, self._retry.initial_delay * 2.0 ** min(attempt - 1, 60))
