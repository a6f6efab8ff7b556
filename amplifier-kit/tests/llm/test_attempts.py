"""How often and how patiently a call is tried."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core.llm_errors import ProviderUnavailableError, RateLimitError
from amplifier_core.testing import EventRecorder
from amplifier_kit.llm import OPENAI, Answer, CommonSettings, Conversation, Endpoint, LLMCall
from amplifier_kit.llm.call import Attempts
from amplifier_kit.llm.testing.rig import ask
from amplifier_kit.llm.throttle import throttle_of


class _Line:
    name = "p"
    coordinator: Any = None

    def __init__(self, **settings: Any) -> None:
        self.settings = CommonSettings(**settings)
        self.endpoint = Endpoint("p", OPENAI)
        self.account = ("p", id(self), object())
        self.hooks = EventRecorder()

    def retries_for(self, error: Exception) -> int:
        return self.settings.max_retries

    async def emit(self, event: str, data: dict[str, Any]) -> None:
        await self.hooks.emit(event, data)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the waits, none of which is waited."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("amplifier_kit.llm.call.asyncio.sleep", sleep)
    return waits


async def _made(line: _Line, *outcomes: BaseException | None) -> Answer:
    pending = list(outcomes)

    async def attempt(answer: Answer) -> None:
        outcome = pending.pop(0)
        if outcome is not None:
            raise outcome
        await answer.say("text", "done")
        await answer.finish("stop")

    return await Attempts(line, LLMCall(ask(), Conversation((), ()), "m", True), "r").make(attempt)


async def test_waits_grow(slept: list[float]) -> None:
    """Each wait doubles up to the longest; overload multiplies it."""
    line = _Line(retry_jitter=False, max_retries=4, max_retry_delay=3.0)
    down = ProviderUnavailableError("down")
    busy = ProviderUnavailableError("busy", delay_multiplier=10.0)
    await _made(line, down, down, down, busy, None)
    assert slept == [1.0, 2.0, 3.0, 30.0]
    assert [data["delay"] for _, data in line.hooks.get_events("provider:retry")] == slept


@pytest.mark.parametrize("number", range(5))
async def test_retry_after_is_kept_to(slept: list[float], number: int) -> None:
    """The wait that a service asks for is never cut short by chance."""
    await _made(_Line(), RateLimitError("slow", retry_after=20.0), None)
    [wait] = slept
    assert 20.0 <= wait <= 22.0


async def test_a_wait_that_is_too_long(slept: list[float]) -> None:
    """A service that asks for more than the longest wait is not asked again."""
    with pytest.raises(RateLimitError):
        await _made(_Line(), RateLimitError("slow", retry_after=61.0))
    assert slept == []


async def test_the_last_error_is_raised(slept: list[float]) -> None:
    """When the attempts are used up, the last error is raised as itself."""
    last = ProviderUnavailableError("third")
    with pytest.raises(ProviderUnavailableError) as caught:
        await _made(_Line(max_retries=2), ProviderUnavailableError("a"), ProviderUnavailableError("b"), last)
    assert caught.value is last
    assert len(slept) == 2


async def test_scarce_limits_slow_down(slept: list[float]) -> None:
    """A limit that is nearly used up delays the call, and it is told."""
    line = _Line()
    throttle_of(line.account).learn(
        {"x-ratelimit-limit-tokens": "1000", "x-ratelimit-remaining-tokens": "1", "x-ratelimit-reset-tokens": "1h"}
    )
    await _made(line, None)
    assert slept == [1.0]
    [(_, told)] = line.hooks.get_events("provider:throttle")
    assert (told["dimension"], told["remaining"], told["provider"], told["request_id"]) == ("tokens", 1, "p", "r")


async def test_cancellation_is_no_failure() -> None:
    """A call that is called off is neither tried again nor held against the service."""
    line = _Line(circuit_breaker_threshold=1)
    with pytest.raises(asyncio.CancelledError):
        await _made(line, asyncio.CancelledError())
    assert line.hooks.events == []
