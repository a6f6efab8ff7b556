"""Trying a model call again: how often, how long to wait, and which errors deserve it."""

from __future__ import annotations

import asyncio
import math
import operator
import random
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, Final, SupportsFloat, TypeVar

from amplifier_core.llm_errors import (
    AccessDeniedError,
    AuthenticationError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    LLMError,
    NotFoundError,
    ProviderUnavailableError,
    RateLimitError,
)

__all__ = ["RetryConfig", "classify_error_message", "compute_delay", "retry_with_backoff"]

T = TypeVar("T")

_INITIAL_DELAY: Final = 1.0
_BACKOFF_FACTOR: Final = 2.0


class RetryConfig:
    """Say how often and how patiently to retry. Attributes are read-only.

    Args:
        max_retries: Further attempts after the first; 0 tries once.
        initial_delay: Seconds before the first retry.
        max_delay: Upper bound of the exponential back-off, in seconds.
        backoff_factor: Growth of the delay from one retry to the next.
        jitter: Whether to spread delays at random; None means yes. A number is the deprecated form, non-zero is yes.
        honor_retry_after: Whether to wait at least as long as the service asked for.
        min_delay: Deprecated name of `initial_delay`, used only while that is at its default.
        backoff_multiplier: Deprecated name of `backoff_factor`, used only while that is at its default.
    """

    __slots__ = ("_backoff_factor", "_honor_retry_after", "_initial_delay", "_jitter", "_max_delay", "_max_retries")

    def __init__(
        self,
        max_retries: int = 3,
        initial_delay: float = _INITIAL_DELAY,
        max_delay: float = 60.0,
        backoff_factor: float = _BACKOFF_FACTOR,
        jitter: bool | float | None = None,
        honor_retry_after: bool = True,
        min_delay: float | None = None,
        backoff_multiplier: float | None = None,
    ) -> None:
        if min_delay is not None and initial_delay == _INITIAL_DELAY:
            _deprecated("min_delay is deprecated, use initial_delay")
            initial_delay = min_delay
        if backoff_multiplier is not None and backoff_factor == _BACKOFF_FACTOR:
            _deprecated("backoff_multiplier is deprecated, use backoff_factor")
            backoff_factor = backoff_multiplier
        self._max_retries = _count("max_retries", max_retries)
        self._initial_delay = _number("initial_delay", initial_delay)
        self._max_delay = _number("max_delay", max_delay)
        self._backoff_factor = _number("backoff_factor", backoff_factor)
        self._jitter = _jitter_switch(jitter)
        self._honor_retry_after = _flag("honor_retry_after", honor_retry_after)

    @property
    def max_retries(self) -> int:
        """Return how many further attempts follow the first."""
        return self._max_retries

    @property
    def initial_delay(self) -> float:
        """Return the seconds before the first retry."""
        return self._initial_delay

    @property
    def max_delay(self) -> float:
        """Return the upper bound of the exponential back-off."""
        return self._max_delay

    @property
    def backoff_factor(self) -> float:
        """Return the growth of the delay from one retry to the next."""
        return self._backoff_factor

    @property
    def jitter(self) -> float:
        """Return 0.2 when delays are spread at random, else 0.0: a switch in the shape of a number."""
        return 0.2 if self._jitter else 0.0

    @property
    def honor_retry_after(self) -> bool:
        """Return whether the service's own waiting time counts."""
        return self._honor_retry_after

    @property
    def min_delay(self) -> float:
        """Return `initial_delay`, with a DeprecationWarning."""
        _deprecated("min_delay is deprecated, use initial_delay")
        return self._initial_delay

    @property
    def backoff_multiplier(self) -> float:
        """Return `backoff_factor`, with a DeprecationWarning."""
        _deprecated("backoff_multiplier is deprecated, use backoff_factor")
        return self._backoff_factor

    def __repr__(self) -> str:
        return (
            f"RetryConfig(max_retries={self._max_retries}, initial_delay={self._initial_delay}, "
            f"max_delay={self._max_delay}, backoff_factor={self._backoff_factor}, jitter={self._jitter}, "
            f"honor_retry_after={self._honor_retry_after})"
        )


def compute_delay(
    config: RetryConfig, attempt: int, retry_after: float | None = None, delay_multiplier: float | None = None
) -> float:
    """Return the seconds to wait after failed attempt number `attempt`, counted from 0.

    The exponential delay is bounded by `max_delay`, then multiplied, then raised to `retry_after`, then spread by
    jitter over [0.5, 1.5) of itself. Only the first of these is bounded. A multiplier that is not finite and positive,
    and a `retry_after` that is not finite, do not count. Raise ValueError for a negative `attempt`.
    """
    if attempt < 0:
        raise ValueError(f"compute_delay: attempt must be 0 or more, got {attempt!r}")
    delay = min(_exponential(config, attempt), config.max_delay)
    if delay_multiplier is not None and math.isfinite(delay_multiplier) and delay_multiplier > 0:
        delay *= delay_multiplier
    if retry_after is not None and config.honor_retry_after and math.isfinite(retry_after):
        delay = max(delay, retry_after)
    if config.jitter:
        delay *= random.uniform(0.5, 1.5)
    # Also turns the NaN of nonsensical settings into no wait at all.
    return max(0.0, delay)


async def retry_with_backoff(
    operation: Callable[[], Awaitable[T]],
    config: RetryConfig | None = None,
    *,
    on_retry: Callable[[int, float, LLMError], Awaitable[None]] | None = None,
) -> T:
    """Await `operation()` until it succeeds, at most `max_retries` + 1 times, and return its result.

    Before each wait `on_retry(attempt, delay, error)` is awaited, attempts counted from 1. An error that is not an
    `LLMError`, or not retryable, is raised at once, and the last one when all attempts have failed; each unchanged.
    """
    settings = RetryConfig() if config is None else config
    attempt = 0
    while True:
        try:
            return await operation()
        except LLMError as error:
            if not error.retryable or attempt >= settings.max_retries:
                raise
            delay = compute_delay(settings, attempt, error.retry_after, error.delay_multiplier)
            attempt += 1
            if on_retry is not None:
                await on_retry(attempt, delay, error)
        await asyncio.sleep(delay)


_BY_STATUS: Final[dict[int, type[LLMError]]] = {
    401: AuthenticationError,
    403: AccessDeniedError,
    404: NotFoundError,
    413: ContextLengthError,
    429: RateLimitError,
}

_BY_PHRASE: Final[tuple[tuple[tuple[str, ...], type[LLMError]], ...]] = (
    (("context length", "too many tokens", "maximum context"), ContextLengthError),
    (("rate limit", "too many requests"), RateLimitError),
    (("authentication", "api key", "unauthorized"), AuthenticationError),
    (("not found",), NotFoundError),
    (("content filter", "safety", "blocked"), ContentFilterError),
)


def classify_error_message(
    message: str, *, status_code: int | None = None, provider: str | None = None
) -> type[LLMError]:
    """Return the error class that fits a service's status and words, `LLMError` when nothing does.

    A status that says enough decides; else the words do, in any case; 400 and 422 come last because services use them
    for everything. `provider` is accepted for callers that pass it and changes nothing.
    """
    if status_code is not None:
        if status_code in _BY_STATUS:
            return _BY_STATUS[status_code]
        if status_code >= 500:
            return ProviderUnavailableError
    text = message.lower()
    for phrases, kind in _BY_PHRASE:
        if any(phrase in text for phrase in phrases):
            return kind
    return InvalidRequestError if status_code in (400, 422) else LLMError


def _exponential(config: RetryConfig, attempt: int) -> float:
    if config.initial_delay == 0:
        return 0.0
    try:
        delay = config.initial_delay * config.backoff_factor**attempt
    except OverflowError:
        return math.inf
    return math.inf if math.isnan(delay) else delay


def _deprecated(message: str) -> None:
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def _jitter_switch(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return value is not False
    if isinstance(value, int | float):
        warnings.warn("passing a float for jitter is deprecated, use a bool", DeprecationWarning, stacklevel=3)
        return value != 0
    warnings.warn(
        f"RetryConfig: jitter must be a bool, got {type(value).__name__}; jitter stays on", UserWarning, stacklevel=3
    )
    return True


def _count(name: str, value: Any) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"RetryConfig: {name} must be an int, got {type(value).__name__}") from None
    if count < 0:
        raise ValueError(f"RetryConfig: {name} must be 0 or more, got {count}; 0 means no retry")
    return count


def _number(name: str, value: Any) -> float:
    if not isinstance(value, SupportsFloat):
        raise TypeError(f"RetryConfig: {name} must be a number, got {type(value).__name__}")
    return float(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"RetryConfig: {name} must be a bool, got {type(value).__name__}")
    return value
