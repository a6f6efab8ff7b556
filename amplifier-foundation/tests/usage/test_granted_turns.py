"""A turn that was granted is the session's, whatever others are refused meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_foundation.usage.budget import SessionBudget
from amplifier_kit.engine.usage import BudgetExhaustedError, require_allowance


def _connected(budget: SessionBudget, name: str) -> Any:
    coordinator: Any = ModuleCoordinator(
        session=SimpleNamespace(session_id=name, parent_id=None, config={"session": {}})
    )
    budget.connect(coordinator)
    return coordinator


async def _request(coordinator: Any) -> str:
    return str((await coordinator.hooks.emit("provider:request", {"provider": "p"})).action)


async def test_a_sibling_that_is_refused_takes_no_turn_back() -> None:
    """The provider may ask in the request that has the last turn, after a sibling was refused one; nobody else may."""
    root = SessionBudget({"turns": 1})
    first, second = (root.child() for _ in range(2))
    mine, other = _connected(first, "first"), _connected(second, "second")
    with mine.span("provider:p"):
        assert await _request(mine) == "continue"
        with other.span("provider:p"):
            assert await _request(other) == "deny"
            with pytest.raises(BudgetExhaustedError):
                require_allowance(other)
        await mine.hooks.emit("llm:request", {"provider": "p"})
        require_allowance(mine)
        assert (first.refused, root.refused) == (None, None)
        await mine.hooks.emit("llm:request", {"provider": "p"})  # asked once more: that is another turn
        with pytest.raises(BudgetExhaustedError, match="the budget of 1 turns is used up"):
            require_allowance(mine)
        await mine.hooks.emit("provider:response", {"provider": "p"})
    with pytest.raises(BudgetExhaustedError):
        require_allowance(mine)
    assert root.used()["turns"] == 1
    assert second.refused == "the budget of 1 turns is used up (1 used)"


@pytest.mark.parametrize("limit", ["usd", "tokens", "seconds"])
async def test_what_is_spent_is_spent(limit: str) -> None:
    """Dollars, tokens and time that others have used since the turn was granted are gone for it too."""
    now = 0.0
    root = SessionBudget({limit: 1}, clock=lambda: now)
    child = root.child()
    coordinator = _connected(child, "child")
    with coordinator.span("provider:p"):
        assert await _request(coordinator) == "continue"
        require_allowance(coordinator)
        root.add_usage({"total_tokens": 1, "cost_usd": "1"})
        now = 2.0
        with pytest.raises(BudgetExhaustedError, match=f"the budget of 1 {limit} is used up"):
            require_allowance(coordinator)
    assert child.refused is not None
