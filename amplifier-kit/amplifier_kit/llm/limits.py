"""Limits that all providers of one account share: concurrent requests, rate limits, and a circuit breaker.

A session, its children and other sessions each mount their own provider object, perhaps on different event loops, but
the service counts them together. So there is one `AccountLimits` per account in the process, safe across threads.
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
from datetime import datetime
from typing import Any, Final, Literal

from amplifier_core.llm_errors import AbortError, LLMError, LLMTimeoutError, ProviderUnavailableError, StreamError
from amplifier_kit.named_tuple import NamedTuple


class AccountLimits:
    def __init__(self) -> None:
        self.concurrency: Final = ConcurrencyLimit()
        self.throttle: Final = Throttle()
        self.breaker: Final = CircuitBreaker()


_accounts: Final[dict[Hashable, AccountLimits]] = {}


def limits_for(account: Hashable) -> AccountLimits:
    """Return the limits that all providers of an account share in this process."""
    return _accounts.setdefault(account, AccountLimits())


# -- concurrent requests --


class _Waiter(NamedTuple):
    limit: int
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


class ConcurrencyLimit:
    """Admit a limited number of callers at a time, first come first served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self.active = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def slot(
        self, limit: int, on_wait: Callable[[dict[str, int]], Awaitable[None]] | None = None
    ) -> AsyncIterator[None]:
        """Hold a slot while the block runs; a `limit` of 0 means no limit.

        A caller that has to wait first calls `on_wait` with the data of `provider:concurrency`.
        """
        loop = asyncio.get_running_loop()
        waiter: _Waiter | None = None
        with self._lock:
            if limit > 0 and (self.active >= limit or self._waiting):
                waiter = _Waiter(limit, loop, loop.create_future())
                self._waiting.append(waiter)
            else:
                self.active += 1
        if waiter is not None:
            try:
                if on_wait is not None:
                    counts = {"active_requests": self.active, "waiting_requests": self.waiting}
                    await on_wait({**counts, "max_concurrent": limit, "process_id": os.getpid()})
                await waiter.future
            except BaseException:
                self._give_up(waiter)
                raise
        try:
            yield
        finally:
            with self._lock:
                self._release()

    def _give_up(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:
                self._release()  # it had just been admitted

    def _release(self) -> None:
        self.active -= 1
        while self._waiting and self.active < self._waiting[0].limit:
            waiter = self._waiting.popleft()
            try:
                waiter.loop.call_soon_threadsafe(_wake, waiter.future)
            except RuntimeError:
                continue  # its event loop is closed
            self.active += 1


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


# -- rate limits of the service --


_ANTHROPIC: Final = re.compile(r"anthropic-ratelimit-(?P<dimension>[a-z-]+)-(?P<field>limit|remaining|reset)")
_OPENAI: Final = re.compile(r"x-ratelimit-(?P<field>limit|remaining|reset)-(?P<dimension>[a-z-]+)")
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
        return self.remaining / self.limit


def read_rate_limits(headers: Mapping[str, str], now: float | None = None) -> list[RateLimit]:
    """Return the limits in the headers of a response: `anthropic-ratelimit-*` or `x-ratelimit-*`."""
    found: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        match = _ANTHROPIC.fullmatch(name.lower()) or _OPENAI.fullmatch(name.lower())
        if match is not None:
            found.setdefault(match["dimension"].replace("-", "_"), {})[match["field"]] = value.strip()
    limits = []
    for dimension, values in found.items():
        try:
            limit, remaining = int(values["limit"]), int(values["remaining"])
        except (KeyError, ValueError):
            continue
        if limit > 0:
            limits.append(RateLimit(dimension, limit, remaining, _reset_time(values.get("reset", ""), now)))
    return limits


def _reset_time(text: str, now: float | None) -> float | None:
    """Return the Unix time of a reset that is given as a duration such as `1m30s`, or as an ISO date."""
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return (time.time() if now is None else now) + sum(float(number) * _SECONDS[unit] for number, unit in parts)
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


class Throttle:
    """Delay requests when a rate limit of the last response is nearly used up."""

    def __init__(self) -> None:
        self._limits: list[RateLimit] = []

    def learn(self, headers: Mapping[str, str]) -> list[RateLimit]:
        """Store and return the limits in the headers of a response."""
        limits = read_rate_limits(headers)
        self._limits = limits or self._limits
        return limits

    def due(self, threshold: float, delay: float, now: float | None = None) -> dict[str, Any] | None:
        """Return the data of `provider:throttle` when the next call should wait, else None.

        The wait is `delay` seconds, or less when the limit resets earlier. A limit that was reset since does not count.
        A `threshold` of 0 switches throttling off.
        """
        if threshold <= 0:  # some services send a negative remainder
            return None
        moment = time.time() if now is None else now
        scarce = [limit for limit in self._limits if limit.ratio < threshold]
        waits = {limit: delay if limit.reset is None else min(delay, limit.reset - moment) for limit in scarce}
        worst = min((limit for limit, wait in waits.items() if wait > 0), key=lambda limit: limit.ratio, default=None)
        if worst is None:
            return None
        return {
            "reason": "rate_limit_low",
            "dimension": worst.dimension,
            "remaining": worst.remaining,
            "limit": worst.limit,
            "ratio": round(worst.ratio, 4),
            "reset_timestamp": worst.reset,
            "delay": round(waits[worst], 3),
        }


# -- the circuit breaker --


CircuitState = Literal["closed", "open", "half_open"]

_COUNTED: Final = (ProviderUnavailableError, LLMTimeoutError, StreamError)


class CircuitBreaker:
    """Stop calling a service that is down, and try it again after a while with a single call.

    Closed, every call passes. After `threshold` failed calls in a row it is open: calls fail at once, for `cooldown`
    seconds. Then it is half open: one call passes, and its outcome decides.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Failed calls in a row.
        self.failures = 0
        self._opened_at: float | None = None
        self._is_probing = False

    def enter(self, threshold: int, cooldown: float, now: float | None = None) -> tuple[CircuitState, float]:
        """Return the state for a new call, and the seconds until a probe when it is open.

        When it is half open, this caller is the probe. A `threshold` of 0 switches the breaker off.
        """
        with self._lock:
            if threshold <= 0 or self._opened_at is None:
                return "closed", 0.0
            left = self._opened_at + cooldown - (time.monotonic() if now is None else now)
            if left > 0 or self._is_probing:
                return "open", max(left, 0.0)
            self._is_probing = True
            return "half_open", 0.0

    def report(self, error: BaseException | None, threshold: int, now: float | None = None) -> CircuitState | None:
        """Record the outcome of a call; return the new state when it changed."""
        with self._lock:
            was_probing, self._is_probing = self._is_probing, False
            was_open = self._opened_at is not None
            if isinstance(error, _COUNTED):
                self.failures += 1
                if threshold <= 0 or (self.failures < threshold and not was_probing):
                    return None
                self._opened_at = time.monotonic() if now is None else now
                return "open" if was_probing or not was_open else None
            # A refusal, as of a wrong key, shows that the service is up; a cancelled call never reached it.
            is_answer = error is None or (isinstance(error, LLMError) and not isinstance(error, AbortError))
            if not is_answer:
                return None
            self._opened_at, self.failures = None, 0
            return "closed" if was_open else None
