"""Stop calling a service that is down, and try it again after a while with a single call."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Final, Literal

from amplifier_core.llm_errors import AbortError, LLMError, LLMTimeoutError, ProviderUnavailableError, StreamError

__all__ = ["CircuitBreaker", "CircuitState", "circuit_breaker_for"]

CircuitState = Literal["closed", "open", "half_open"]

_COUNTED: Final = (ProviderUnavailableError, LLMTimeoutError, StreamError)


class CircuitBreaker:
    """Count failures of a service in a row; shared by all sessions of the process.

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
        """Return the number of failed calls in a row."""
        return self._failures

    def enter(self, threshold: int, cooldown: float, now: float | None = None) -> tuple[CircuitState, float]:
        """Return the state for a new call, and the seconds until a probe when it is open.

        When it is half open, this caller is the probe. A `threshold` of 0 switches the breaker off.
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

    def report(self, error: BaseException | None, threshold: int, now: float | None = None) -> CircuitState | None:
        """Record the outcome of a call; return the new state when it changed.

        A cancellation says nothing about the health of the service; a refusal, as of a wrong key, shows that it is up.
        """
        moment = time.monotonic() if now is None else now
        with self._lock:
            was_probing, self._is_probing = self._is_probing, False
            if error is None:
                was_open, self._opened_at, self._failures = self._opened_at is not None, None, 0
                return "closed" if was_open else None
            if not isinstance(error, _COUNTED):
                # A refusal is an answer, so the service is up; an aborted call never reached it.
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


_breakers: Final[dict[Hashable, CircuitBreaker]] = {}
_breakers_lock: Final = threading.Lock()


def circuit_breaker_for(account: Hashable) -> CircuitBreaker:
    """Return the breaker that all providers of an account share in this process."""
    with _breakers_lock:
        return _breakers.setdefault(account, CircuitBreaker())
