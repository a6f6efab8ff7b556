"""Limits on requests to one account: how many at the same time, and fewer before a rate limit is reached.

A session, its children and other sessions each mount a provider object, perhaps on different event loops; the service
counts them all together. So there is one limit per account in the process, safe across threads and event loops.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

__all__ = ["ConcurrencyLimit", "RateLimit", "Throttle", "concurrency_limit_for", "rate_limits_of", "throttle_for"]

# -- requests at the same time --


OnWait = Callable[[dict[str, int]], Awaitable[None]]


class ConcurrencyLimit:
    """Admit a limited number of callers at a time, first come first served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self.active = 0

    @property
    def waiting(self) -> int:
        """Return the number of waiting callers."""
        return len(self._waiting)

    @asynccontextmanager
    async def slot(self, limit: int, on_wait: OnWait | None = None) -> AsyncIterator[None]:
        """Hold a slot while the block runs; a `limit` of 0 is no limit.

        `on_wait` is called with the counts when the caller has to wait.
        """
        waiter = self._enter(limit)
        try:
            if waiter is not None:
                if on_wait is not None:
                    await on_wait(self.numbers(limit))
                await waiter.future
        except BaseException:
            self._give_up(waiter)
            raise
        try:
            yield
        finally:
            self._leave()

    def numbers(self, limit: int) -> dict[str, int]:
        """Return the data of `provider:concurrency`."""
        counts = {"active_requests": self.active, "waiting_requests": self.waiting}
        return {**counts, "max_concurrent": limit, "process_id": os.getpid()}

    def _enter(self, limit: int) -> _Waiter | None:
        with self._lock:
            if limit <= 0 or (self.active < limit and not self._waiting):
                self.active += 1
                return None
            waiter = _Waiter(limit)
            self._waiting.append(waiter)
            return waiter

    def _leave(self) -> None:
        with self._lock:
            self.active -= 1
            self._admit()

    def _give_up(self, waiter: _Waiter | None) -> None:
        if waiter is None:
            return
        with self._lock:
            if waiter.is_admitted:
                self.active -= 1
                self._admit()
            else:
                self._waiting.remove(waiter)

    def _admit(self) -> None:
        while self._waiting and self.active < self._waiting[0].limit:
            waiter = self._waiting.popleft()
            if waiter.admit():
                self.active += 1


class _Waiter:
    """A caller that waits on its own event loop."""

    def __init__(self, limit: int) -> None:
        self.limit: Final = limit
        self.is_admitted = False
        self._loop = asyncio.get_running_loop()
        self.future: Final[asyncio.Future[None]] = self._loop.create_future()

    def admit(self) -> bool:
        """Wake the caller; False when its event loop is closed."""
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            return False
        self.is_admitted = True
        return True

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


_limits_by_account: Final[dict[Hashable, ConcurrencyLimit]] = {}
_limits_lock: Final = threading.Lock()


def concurrency_limit_for(account: Hashable) -> ConcurrencyLimit:
    """Return the limit that all providers of an account share in this process."""
    with _limits_lock:
        return _limits_by_account.setdefault(account, ConcurrencyLimit())


# -- rate limits of the service --


_ANTHROPIC: Final = re.compile(r"^anthropic-ratelimit-([a-z-]+)-(limit|remaining|reset)$")
_OPENAI: Final = re.compile(r"^x-ratelimit-(limit|remaining|reset)-([a-z-]+)$")
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class RateLimit(NamedTuple):
    """A rate limit of a service: its dimension, size, remainder, and the Unix time of its reset."""

    dimension: str
    limit: int
    remaining: int
    reset: float | None

    @property
    def ratio(self) -> float:
        """Return the remaining share."""
        return self.remaining / self.limit if self.limit > 0 else 1.0


def rate_limits_of(headers: Mapping[str, str], now: float | None = None) -> list[RateLimit]:
    """Return the limits in the headers of a response: `anthropic-ratelimit-*` or `x-ratelimit-*`."""
    found: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        low = name.lower()
        if "ratelimit" not in low:
            continue
        if match := _ANTHROPIC.match(low):
            found.setdefault(match[1].replace("-", "_"), {})[match[2]] = value
        elif match := _OPENAI.match(low):
            found.setdefault(match[2].replace("-", "_"), {})[match[1]] = value
    moment = time.time() if now is None else now
    limits = []
    for dimension, values in found.items():
        limit, remaining = _whole(values.get("limit")), _whole(values.get("remaining"))
        if limit and remaining is not None:
            limits.append(RateLimit(dimension, limit, remaining, _moment(values.get("reset"), moment)))
    return limits


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdigit() else None


def _moment(text: str | None, now: float) -> float | None:
    if not text:
        return None
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text.strip():
        return now + sum(float(number) * _SECONDS[unit] for number, unit in parts)
    from datetime import datetime

    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


class Throttle:
    """Delay requests when a limit of the last response is nearly used up; shared by all sessions of the process."""

    def __init__(self) -> None:
        self._limits: list[RateLimit] = []

    def learn(self, headers: Mapping[str, str]) -> list[RateLimit]:
        """Store and return the limits in the headers of a response."""
        limits = rate_limits_of(headers)
        if limits:
            self._limits = limits
        return limits

    def due(self, threshold: float, delay: float, now: float | None = None) -> dict[str, Any] | None:
        """Return the data of `provider:throttle` when the next call should wait, else None.

        The wait is `delay` seconds, or less when the limit resets earlier. A limit that was reset since does not count.
        """
        moment = time.time() if now is None else now
        scarce = [limit for limit in self._limits if limit.ratio < threshold and (limit.reset or moment) >= moment]
        if threshold <= 0 or delay <= 0 or not scarce:
            return None
        worst = min(scarce, key=lambda limit: limit.ratio)
        wait = min(delay, worst.reset - moment) if worst.reset is not None else delay
        if wait <= 0:
            return None
        return {
            "reason": "rate_limit_low",
            "dimension": worst.dimension,
            "remaining": worst.remaining,
            "limit": worst.limit,
            "ratio": round(worst.ratio, 4),
            "reset_timestamp": worst.reset,
            "delay": round(wait, 3),
        }


_throttles: Final[dict[Hashable, Throttle]] = {}
_lock: Final = threading.Lock()


def throttle_for(account: Hashable) -> Throttle:
    """Return the throttle that all providers of an account share in this process."""
    with _lock:
        return _throttles.setdefault(account, Throttle())
