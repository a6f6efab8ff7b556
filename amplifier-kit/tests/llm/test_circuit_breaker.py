"""When a service is left alone."""

from __future__ import annotations

import asyncio

import pytest

from amplifier_core.llm_errors import (
    AuthenticationError,
    LLMTimeoutError,
    NetworkError,
    ProviderUnavailableError,
    RateLimitError,
)
from amplifier_kit.llm.limits import CircuitBreaker, limits_for

DOWN = ProviderUnavailableError("down")


def test_the_way_round() -> None:
    """Closed, open, half open, closed: each state follows from the outcomes."""
    breaker = CircuitBreaker()
    assert breaker.enter(2, 10, now=0) == ("closed", 0)
    assert breaker.report(DOWN, 2, now=0) is None
    assert breaker.report(NetworkError("no"), 2, now=1) == "open"
    assert breaker.failures == 2
    assert breaker.enter(2, 10, now=4) == ("open", 7)
    assert breaker.enter(2, 10, now=11) == ("half_open", 0)
    assert breaker.enter(2, 10, now=12) == ("open", 0)
    assert breaker.report(None, 2, now=13) == "closed"
    assert breaker.enter(2, 10, now=14) == ("closed", 0)


def test_a_probe_that_fails() -> None:
    """One failure of the probe opens it for another while."""
    breaker = CircuitBreaker()
    breaker.report(DOWN, 1, now=0)
    assert breaker.enter(1, 10, now=11)[0] == "half_open"
    assert breaker.report(LLMTimeoutError("slow"), 1, now=12) == "open"
    assert breaker.enter(1, 10, now=20) == ("open", 2)


def test_a_success_forgets() -> None:
    """Only failures in a row count."""
    breaker = CircuitBreaker()
    breaker.report(DOWN, 2)
    breaker.report(None, 2)
    assert breaker.report(DOWN, 2) is None


@pytest.mark.parametrize("error", [AuthenticationError("key"), RateLimitError("slow")])
def test_a_service_that_answers_is_up(error: Exception) -> None:
    """A refusal is an answer: it closes the breaker."""
    breaker = CircuitBreaker()
    breaker.report(DOWN, 1, now=0)
    breaker.enter(1, 0, now=1)
    assert breaker.report(error, 1, now=2) == "closed"


def test_a_cancelled_probe_says_nothing() -> None:
    """The next call is the probe when the last one was called off."""
    breaker = CircuitBreaker()
    breaker.report(DOWN, 1, now=0)
    assert breaker.enter(1, 1, now=5)[0] == "half_open"
    assert breaker.report(asyncio.CancelledError(), 1, now=5) is None
    assert breaker.enter(1, 1, now=5)[0] == "half_open"


def test_switched_off() -> None:
    """A threshold of 0 never opens it."""
    breaker = CircuitBreaker()
    for _ in range(20):
        assert breaker.report(DOWN, 0) is None
    assert breaker.enter(0, 10) == ("closed", 0)


def test_one_breaker_per_account() -> None:
    """The same account gives the same breaker."""
    key = object()
    assert limits_for(key).breaker is limits_for(key).breaker
