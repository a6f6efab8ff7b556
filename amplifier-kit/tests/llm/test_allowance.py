"""A model is asked only as long as the session's budget allows it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from amplifier_core.llm_errors import ProviderUnavailableError
from amplifier_core.testing import EventRecorder, MockCoordinator
from amplifier_kit.llm import (
    OPENAI,
    Answer,
    BudgetExhaustedError,
    CommonSettings,
    Conversation,
    Endpoint,
    LLMCall,
    require_allowance,
)
from amplifier_kit.llm.breaker import breaker_of
from amplifier_kit.llm.call import Attempts
from amplifier_kit.llm.testing.rig import ask


class _Budget:
    """Allow so many attempts."""

    def __init__(self, attempts: int) -> None:
        self.left = attempts
        self.asked = 0

    def check(self) -> str | None:
        self.asked += 1
        self.left -= 1
        return None if self.left >= 0 else "all is used up"


class _Line:
    name = "p"

    def __init__(self, budget: Any = None, **settings: Any) -> None:
        self.settings = CommonSettings(min_retry_delay=0, retry_jitter=False, **settings)
        self.endpoint = Endpoint("p", OPENAI)
        self.account = ("p", id(self), object())
        self.hooks = EventRecorder()
        self.coordinator: Any = MockCoordinator()
        if budget is not None:
            self.coordinator.register_capability("session.budget", budget)

    def retries_for(self, error: Exception) -> int:
        return self.settings.max_retries

    async def emit(self, event: str, data: dict[str, Any]) -> None:
        await self.hooks.emit(event, data)


async def _made(line: _Line, *outcomes: BaseException | None) -> int:
    """Return how many attempts were made until one worked, or the budget said no."""
    pending = list(outcomes)

    async def attempt(answer: Answer) -> None:
        outcome = pending.pop(0)
        if outcome is not None:
            raise outcome
        await answer.say("text", "done")
        await answer.finish("stop")

    with suppress(BudgetExhaustedError):
        await Attempts(line, LLMCall(ask(), Conversation((), ()), "m", True), "r").make(attempt)
    return len(outcomes) - len(pending)


@pytest.mark.parametrize(("allowed", "made"), [(0, 0), (1, 1), (2, 2), (9, 3)])
async def test_every_attempt_is_asked_for(allowed: int, made: int) -> None:
    """The budget is asked before each attempt, and at the first no nothing more is sent, nor waited for."""
    down = ProviderUnavailableError("down")
    budget = _Budget(allowed)
    line = _Line(budget, max_retries=5)
    assert await _made(line, down, down, None) == made
    assert budget.asked == min(allowed, 2) + 1
    assert len(line.hooks.get_events("provider:retry")) == min(allowed, 2)


def test_the_refusal_says_why() -> None:
    """The error has the budget's reason and a code of its own, and is not worth trying again."""
    with pytest.raises(BudgetExhaustedError, match="all is used up") as refused:
        require_allowance(_Line(_Budget(0)).coordinator, "p", "m")
    error = refused.value
    assert (error.code, error.provider, error.model, error.retryable) == ("budget_exhausted", "p", "m", False)


async def test_without_a_budget_all_is_allowed() -> None:
    """A session that nobody limits, and a provider without a session, are asked nothing."""
    assert await _made(_Line(), None) == 1
    require_allowance(None)


async def test_a_budget_that_fails_allows_nothing() -> None:
    """What cannot say yes says no."""

    class Broken:
        def check(self) -> str | None:
            raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        await _made(_Line(Broken()), None)


async def test_a_refusal_says_nothing_of_the_service() -> None:
    """A service that was not asked is neither up nor down: its breaker stays as it is."""
    line = _Line(_Budget(1), circuit_breaker_threshold=2, max_retries=0)
    with pytest.raises(ProviderUnavailableError):
        await _made(line, ProviderUnavailableError("down"))
    await _made(line, None)
    assert breaker_of(line.account).failures == 1
