"""A model is asked only as long as the session's budget allows it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from amplifier_core.llm_errors import ProviderUnavailableError
from amplifier_core.testing import MockCoordinator
from amplifier_kit.engine.usage import BudgetExhaustedError, require_allowance
from amplifier_kit.llm.limits import limits_for


class _Budget:
    """Allow a number of attempts."""

    def __init__(self, attempts: int) -> None:
        self.left = attempts
        self.asked = 0

    def check(self) -> str | None:
        self.asked += 1
        self.left -= 1
        return None if self.left >= 0 else "all is used up"


@pytest.fixture
def limited_line(make_line: Any) -> Any:
    """Give `limited_line(budget=None, **settings)`: a line of a session with this budget, without waits."""

    def make(budget: Any = None, **settings: Any) -> Any:
        coordinator: MockCoordinator = MockCoordinator()
        if budget is not None:
            coordinator.register_capability("session.budget", budget)
        return make_line(coordinator, min_retry_delay=0, retry_jitter=False, **settings)

    return make


@pytest.fixture
def attempts(make_call: Any) -> Callable[..., Awaitable[int]]:
    """Give `attempts(line, *outcomes)`: how many were made until one worked, or the budget said no."""

    async def count(line: Any, *outcomes: BaseException | None) -> int:
        pending = list(outcomes)
        with suppress(BudgetExhaustedError):
            await make_call(line, pending)
        return len(outcomes) - len(pending)

    return count


@pytest.mark.parametrize(("allowed", "made"), [(0, 0), (1, 1), (2, 2), (9, 3)])
async def test_every_attempt_is_asked_for(allowed: int, made: int, limited_line: Any, attempts: Any) -> None:
    """The budget is asked before each attempt, and at the first no nothing more is sent, nor waited for."""
    down = ProviderUnavailableError("down")
    budget = _Budget(allowed)
    line = limited_line(budget, max_retries=5)
    assert await attempts(line, down, down, None) == made
    assert budget.asked == min(allowed, 2) + 1
    assert len(line.hooks.get_events("provider:retry")) == min(allowed, 2)


def test_the_refusal_says_why(limited_line: Any) -> None:
    """The error has the budget's reason and a separate code, and is not retryable."""
    with pytest.raises(BudgetExhaustedError, match="all is used up") as refused:
        require_allowance(limited_line(_Budget(0)).coordinator, "p", "m")
    error = refused.value
    assert (error.code, error.provider, error.model, error.retryable) == ("budget_exhausted", "p", "m", False)


async def test_without_a_budget_all_is_allowed(limited_line: Any, attempts: Any) -> None:
    """A session without a budget, and a provider without a session, have no limit."""
    assert await attempts(limited_line(), None) == 1
    require_allowance(None)


async def test_a_budget_that_fails_allows_nothing(limited_line: Any, attempts: Any) -> None:
    """What cannot say yes says no."""

    class Broken:
        def check(self) -> str | None:
            raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        await attempts(limited_line(Broken()), None)


async def test_a_refusal_says_nothing_of_the_service(limited_line: Any, attempts: Any) -> None:
    """A service that was not asked is neither up nor down: its breaker stays as it is."""
    line = limited_line(_Budget(1), circuit_breaker_threshold=2, max_retries=0)
    with pytest.raises(ProviderUnavailableError):
        await attempts(line, ProviderUnavailableError("down"))
    await attempts(line, None)
    assert limits_for(line.account).breaker.failures == 1
