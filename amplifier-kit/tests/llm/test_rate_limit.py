"""What services say of their limits."""

from __future__ import annotations

import pytest

from amplifier_kit.llm.limits import RateLimit, Throttle, limits_for, read_rate_limits

SCARCE = {
    "anthropic-ratelimit-requests-limit": "1000",
    "anthropic-ratelimit-requests-remaining": "10",
    "anthropic-ratelimit-requests-reset": "1970-01-01T00:02:00Z",
    "anthropic-ratelimit-input-tokens-limit": "1000",
    "anthropic-ratelimit-input-tokens-remaining": "900",
}


def test_anthropic_headers() -> None:
    """Limits are read with their dimension, and the time of their refill."""
    assert read_rate_limits(SCARCE, now=0) == [
        RateLimit("requests", 1000, 10, 120.0),
        RateLimit("input_tokens", 1000, 900, None),
    ]


@pytest.mark.parametrize(
    ("reset", "moment"), [("6m0s", 360.0), ("20ms", 0.02), ("1h2m3.5s", 3723.5), ("soon", None), ("12", None)]
)
def test_openai_headers(reset: str, moment: float | None) -> None:
    """Resets may be given as durations."""
    headers = {
        "X-RateLimit-Limit-Tokens": "100",
        "x-ratelimit-remaining-tokens": "1",
        "x-ratelimit-reset-tokens": reset,
    }
    assert read_rate_limits(headers, now=0) == [RateLimit("tokens", 100, 1, moment)]


def test_nonsense_is_no_limit() -> None:
    """Headers that cannot be read are left out."""
    assert read_rate_limits({"x-ratelimit-limit-tokens": "many", "x-ratelimit-remaining-tokens": "1"}) == []
    assert read_rate_limits({"x-ratelimit-limit-tokens": "0", "x-ratelimit-remaining-tokens": "0"}) == []


def test_waits_only_when_little_is_left() -> None:
    """The scarcest limit below the threshold says why and how long."""
    throttle = Throttle()
    assert throttle.due(0.02, 1.0, now=0) is None
    throttle.learn(SCARCE)
    due = throttle.due(0.02, 1.0, now=0)
    assert due == {
        "reason": "rate_limit_low",
        "dimension": "requests",
        "remaining": 10,
        "limit": 1000,
        "ratio": 0.01,
        "reset_timestamp": 120.0,
        "delay": 1.0,
    }
    assert throttle.due(0.005, 1.0, now=0) is None
    assert throttle.due(0, 1.0, now=0) is None


def test_negative_remainder_does_not_switch_throttling_on() -> None:
    """A negative remainder delays no call when throttling is off."""
    throttle = Throttle()
    throttle.learn({"x-ratelimit-limit-requests": "100", "x-ratelimit-remaining-requests": "-1"})
    assert throttle.due(0.02, 1.0, now=0) is not None
    assert throttle.due(0, 1.0, now=0) is None


def test_no_longer_than_until_the_refill() -> None:
    """A limit that is full again does not hold anybody up."""
    throttle = Throttle()
    throttle.learn(SCARCE)
    assert (throttle.due(0.02, 60.0, now=110) or {})["delay"] == 10.0
    assert throttle.due(0.02, 60.0, now=121) is None


def test_headers_without_limits_change_nothing() -> None:
    """What was learnt stays until there is news."""
    throttle = limits_for(object()).throttle
    throttle.learn(SCARCE)
    assert throttle.learn({"content-type": "x"}) == []
    assert throttle.due(0.02, 1.0, now=0) is not None
