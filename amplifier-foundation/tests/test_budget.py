"""What a session may use, and where it stops."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.testing import MockCoordinator
from amplifier_foundation.budget import BudgetError, SessionBudget
from amplifier_foundation.log import read_log
from amplifier_foundation.prepared import Prepared
from amplifier_foundation.sessions import SessionRuntime

PLAN: dict[str, Any] = {
    "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
    "providers": [{"module": "provider-mock", "config": {"responses": ["The answer."]}}],
    "hooks": [{"module": "hooks-logging"}],
}


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"uds": 1}, "did you mean 'usd'"),
        ({"usd": "much"}, "session.budget.usd must be a number"),
        ({"turns": -1}, "zero or more"),
        ({"turns": True}, "zero or more"),
        ({"seconds": float("nan")}, "zero or more"),
    ],
)
def test_a_budget_that_is_none_is_refused(limits: dict[str, Any], told: str) -> None:
    """A limit that is misspelt or no amount is an error, not a session without a limit."""
    with pytest.raises(BudgetError, match=told):
        SessionBudget(limits)


def test_an_unknown_price_is_not_zero() -> None:
    """With a limit of dollars, an answer whose price is not known ends the session."""
    budget = SessionBudget({"usd": 5})
    budget.add_usage({"input_tokens": 1, "output_tokens": 1})
    assert "the price of 1 answers is not known" in str(budget.check())
    free = SessionBudget({"tokens": 5})
    free.add_usage({"input_tokens": 1})
    assert free.check() is None


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 20), st.decimals(0, 2, places=4)), max_size=60),
)
def test_no_sequence_of_answers_passes_a_limit_by_more_than_one(limit: int, answers: list[tuple[int, Decimal]]) -> None:
    """Checked before each call, a limit is passed by at most the call in flight, and once reached it stays reached."""
    budget = SessionBudget({"tokens": limit, "usd": limit})
    largest_tokens = max((tokens for tokens, _ in answers), default=0)
    largest_cost = max((cost for _, cost in answers), default=Decimal(0))
    for tokens, cost in answers:
        if budget.check() is not None:
            break
        budget.add_usage({"output_tokens": tokens, "cost_usd": str(cost)})
    used = budget.used()
    assert used["tokens"] <= limit + largest_tokens
    assert used["usd"] <= limit + largest_cost
    if used["tokens"] >= limit or used["usd"] >= limit:
        assert budget.check() is not None
        assert budget.check() == budget.exhausted


def test_seconds_are_those_of_the_clock() -> None:
    """The limit of seconds counts from the start of the session."""
    now = [100.0]
    budget = SessionBudget({"seconds": 3}, clock=lambda: now[0])
    now[0] = 102.5
    assert budget.check() is None
    now[0] = 103.0
    assert budget.check() == "the budget of 3 seconds is used up (3.0 used)"


async def test_a_session_stops_at_its_budget(tmp_path: Path) -> None:
    """The call after the limit is not made, the turn says why, and the log has it once."""
    plan = {**PLAN, "session": {**PLAN["session"], "budget": {"turns": 1}}}
    async with SessionRuntime(Prepared.from_plan(plan, tmp_path / "home", tmp_path), environ={}) as runtime:
        assert await runtime.execute("one") == "The answer."
        for _ in range(2):
            assert "the budget of 1 turns is used up" in await runtime.execute("more")
    assert runtime.budget.exhausted is not None
    events = [line.event for line in read_log(runtime.folder)]
    assert events.count("llm:request") == 1
    assert events.count("budget:exhausted") == 1
    assert events[-1] == "session:end"


async def test_a_changed_input_is_no_second_call() -> None:
    """A call whose input a person has changed counts once, however often hooks hear of it; the next one counts."""
    coordinator: Any = MockCoordinator()
    budget = SessionBudget({"tool_calls": 1})
    budget.connect(coordinator)
    payload = {"tool_name": "work", "tool_input": {}, "tool_call_id": "1"}
    assert (await coordinator.hooks.emit("tool:pre", payload)).action == "continue"
    for edits in (1, 2):
        assert (await coordinator.hooks.emit("tool:pre", {**payload, "edits": edits})).action == "continue"
    assert budget.used()["tool_calls"] == 1
    assert (await coordinator.hooks.emit("tool:pre", {**payload, "tool_call_id": "2"})).action == "deny"
    assert (await coordinator.hooks.emit("tool:pre", {**payload, "edits": 3})).action == "deny"
