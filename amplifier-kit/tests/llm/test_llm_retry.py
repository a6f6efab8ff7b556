"""How often and how patiently a call is tried."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core.llm_errors import ProviderUnavailableError, RateLimitError
from amplifier_kit.llm.limits import limits_for


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the waits, none of which is waited."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("amplifier_kit.llm.retry.asyncio.sleep", sleep)
    return waits


async def test_waits_grow(slept: list[float], make_line: Any, make_call: Any) -> None:
    """Each wait doubles up to the longest; overload multiplies it."""
    line = make_line(retry_jitter=False, max_retries=4, max_retry_delay=3.0)
    down = ProviderUnavailableError("down")
    busy = ProviderUnavailableError("busy", delay_multiplier=10.0)
    await make_call(line, [down, down, down, busy, None])
    assert slept == [1.0, 2.0, 3.0, 30.0]
    assert [data["delay"] for _, data in line.hooks.get_events("provider:retry")] == slept


@pytest.mark.parametrize("number", range(5))
async def test_retry_after_is_kept_to(slept: list[float], number: int, make_line: Any, make_call: Any) -> None:
    """The wait that a service asks for is never cut short by chance."""
    await make_call(make_line(), [RateLimitError("slow", retry_after=20.0), None])
    [wait] = slept
    assert 20.0 <= wait <= 22.0


async def test_a_wait_that_is_too_long(slept: list[float], make_line: Any, make_call: Any) -> None:
    """A service that asks for more than the longest wait is not asked again."""
    with pytest.raises(RateLimitError):
        await make_call(make_line(), [RateLimitError("slow", retry_after=61.0)])
    assert slept == []


async def test_the_last_error_is_raised(slept: list[float], make_line: Any, make_call: Any) -> None:
    """When the attempts are used up, the last error is raised as itself."""
    last = ProviderUnavailableError("third")
    with pytest.raises(ProviderUnavailableError) as caught:
        await make_call(make_line(max_retries=2), [ProviderUnavailableError("a"), ProviderUnavailableError("b"), last])
    assert caught.value is last
    assert len(slept) == 2


async def test_scarce_limits_slow_down(slept: list[float], make_line: Any, make_call: Any) -> None:
    """A limit that is nearly used up delays the call, and the delay is an event."""
    line = make_line()
    limits_for(line.account).throttle.learn(
        {"x-ratelimit-limit-tokens": "1000", "x-ratelimit-remaining-tokens": "1", "x-ratelimit-reset-tokens": "1h"}
    )
    await make_call(line, [None])
    assert slept == [1.0]
    [(_, told)] = line.hooks.get_events("provider:throttle")
    assert (told["dimension"], told["remaining"], told["provider"], told["request_id"]) == ("tokens", 1, "p", "r")


async def test_cancellation_is_no_failure(make_line: Any, make_call: Any) -> None:
    """A call that is called off is neither tried again nor held against the service."""
    line = make_line(circuit_breaker_threshold=1)
    with pytest.raises(asyncio.CancelledError):
        await make_call(line, [asyncio.CancelledError()])
    assert line.hooks.events == []
