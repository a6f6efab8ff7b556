"""Stop asking a service that is down, and try it again after a while with a single call."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Final, Literal

from amplifier_core.llm_errors import AbortError, LLMError, LLMTimeoutError, ProviderUnavailableError, StreamError

__all__ = ["Breaker", "BreakerState", "breaker_of"]

BreakerState = Literal["closed", "open", "half_open"]

_COUNTED: Final = (ProviderUnavailableError, LLMTimeoutError, StreamError)


class Breaker:
    """Count calls that failed because of the service, one after the other; shared by all sessions of the process.

    Closed, every call passes. After `threshold` failed calls it is open: calls fail at once, for `cooldown` seconds.
    Then it is half open: one call passes, and its outcome decides.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._opened_at: float | None = None
        self._is_probing = False

    @property
    def failures(self) -> int:
        """Return how many calls in a row have failed."""
        return self._failures

    def enter(self, threshold: int, cooldown: float, now: float | None = None) -> tuple[BreakerState, float]:
        """Ask to make a call: the state, and the seconds to wait when it is open. Half open, the caller is the probe.

        A `threshold` of 0 switches the breaker off.
        """
        moment = time.monotonic() if now is None else now
        with self._lock:
            if threshold <= 0 or self._opened_at is None:
                return "closed", 0.0
            left = self._opened_at + cooldown - moment
            if left > 0 or self._is_probing:
                return "open", max(left, 0.0)
            self._is_probing = True
            return "half_open", 0.0

    def report(self, error: BaseException | None, threshold: int, now: float | None = None) -> BreakerState | None:
        """Take the outcome of a call that was let through; return the new state when it changed.

        An error that is not of the service, as a wrong key or a cancellation, says nothing about its health.
        """
        moment = time.monotonic() if now is None else now
        with self._lock:
            was_probing, self._is_probing = self._is_probing, False
            if error is None:
                was_open, self._opened_at, self._failures = self._opened_at is not None, None, 0
                return "closed" if was_open else None
            if not isinstance(error, _COUNTED):
                # A service that refuses a request is one that answers; one that was not asked is not.
                if isinstance(error, LLMError) and not isinstance(error, AbortError):
                    was_open, self._opened_at, self._failures = self._opened_at is not None, None, 0
                    return "closed" if was_open else None
                return None
            self._failures += 1
            if threshold <= 0 or (self._failures < threshold and not was_probing):
                return None
            was_closed = self._opened_at is None
            self._opened_at = moment
            return "open" if was_closed or was_probing else None


_breakers: Final[dict[Hashable, Breaker]] = {}
_breakers_lock: Final = threading.Lock()


def breaker_of(account: Hashable) -> Breaker:
    """Return the one breaker of an account in this process."""
    with _breakers_lock:
        return _breakers.setdefault(account, Breaker())
