"""What a session may use, and where it stops."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.testing import MockCoordinator
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.usage.account import MOST_ROWS
from amplifier_foundation.usage.budget import BudgetError, BudgetExceededError, SessionBudget
from amplifier_kit.log.reader import read_log

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
    assert "the price of 1 answer is unknown" in str(budget.check())
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


def test_what_a_child_uses_its_parents_use() -> None:
    """Everything counts all the way up, and a limit above stops a child that has none of its own."""
    root = SessionBudget({"tokens": 10, "turns": 2, "tool_calls": 1})
    grandchild = root.child().child()
    other = root.child({"tokens": 3})
    grandchild.add_usage({"output_tokens": 4})
    other.add_usage({"output_tokens": 3})
    assert (root.used()["tokens"], grandchild.used()["tokens"]) == (Decimal(7), Decimal(4))
    assert other.check() == "the budget of 3 tokens is used up (3 used)"
    assert root.check() is root.exhausted is grandchild.exhausted is None
    assert [grandchild.reserve("turns"), root.reserve("turns")] == [None, None]
    assert "the budget of 2 turns" in str(grandchild.reserve("turns"))
    assert root.exhausted == grandchild.exhausted == root.check()
    assert root.used()["turns"] == 2, "what is refused is not counted"


def test_a_limit_of_calls_stops_those_calls_alone() -> None:
    """The last tool call that is allowed may be talked about; it is the next one that ends the session."""
    budget = SessionBudget({"tool_calls": 1})
    assert [budget.reserve("tool_calls"), budget.check(), budget.reserve("turns")] == [None, None, None]
    assert budget.reserve("tool_calls") == "the budget of 1 tool_calls is used up (1 used)"
    assert budget.reserve("turns") == budget.check() == budget.exhausted


@pytest.mark.parametrize("name", ["usd", "tokens", "seconds"])
def test_nothing_at_all(name: str) -> None:
    """A limit of zero lets no call begin."""
    assert SessionBudget({name: 0}).check() is not None


def test_depth_is_of_levels_below() -> None:
    """A child that would be deeper than allowed below any session is refused, and nobody's session ends for it."""
    root = SessionBudget({"depth": 2})
    child = root.open_child("one", {"depth": 0})
    with pytest.raises(BudgetExceededError, match="0 levels deep") as refused:
        child.open_child("two")
    assert (refused.value.code, refused.value.limit) == ("budget_exhausted", "depth")
    grandchild = root.open_child("one").open_child("two")
    with pytest.raises(BudgetExceededError, match="2 levels deep, and this one would be at level 3"):
        grandchild.open_child("three")
    assert root.exhausted is child.exhausted is grandchild.exhausted is None
    with pytest.raises(BudgetExceededError):
        SessionBudget({"depth": 0}).open_child("one")


def test_fan_out_is_of_all_that_run_at_the_same_time() -> None:
    """Children and theirs have places in the whole tree; each is given back once, by whatever end."""
    root = SessionBudget({"fan_out": 2})
    first = root.open_child("one")
    below = first.open_child("two")
    for budget in (root, first, below):
        with pytest.raises(
            BudgetExceededError, match="2 child sessions at the same time, and 2 are running"
        ) as refused:
            budget.open_child("more")
        assert refused.value.limit == "fan_out"
    below.close()
    below.close()
    with root.open_child("three"), pytest.raises(BudgetExceededError):
        root.open_child("four")
    with pytest.raises(ValueError, match="broken"), root.open_child("five"):
        raise ValueError("broken")
    with pytest.raises(BudgetError):
        root.open_child("six", {"uds": 1})
    first.close()
    assert root.running_children == 0
    SessionBudget({}).close()


def test_no_child_of_a_budget_that_is_used_up() -> None:
    """Where nothing more may be done, no child session is begun."""
    root = SessionBudget({"tokens": 1})
    child = root.open_child("one")
    child.add_usage({"output_tokens": 1})
    with pytest.raises(BudgetExceededError, match="1 tokens is used up") as refused:
        child.open_child("two")
    assert refused.value.limit == "tokens"


def test_rows_do_not_grow_without_end() -> None:
    """A session that starts children without end keeps who used how much by agent, and nothing is lost."""
    root = SessionBudget({})
    root.account.session_id = "root"
    root.add_usage({"output_tokens": 1, "cost_usd": 0})
    for number in range(3 * MOST_ROWS):
        child = root.child(agent="helper")
        child.account.session_id = f"child-{number}"
        child.add_usage({"output_tokens": 1, "cost_usd": 0})
    rows = root.spent()
    assert len(rows) <= MOST_ROWS
    assert sum(row["calls"] for row in rows) == sum(row["tokens"] for row in rows) == 3 * MOST_ROWS + 1
    assert rows[0]["session"] == "root"
    assert any(row["session"] is None and row["agent"] == "helper" for row in rows)


@pytest.mark.parametrize(
    ("usage", "tokens", "unpriced"),
    [
        ({"input_tokens": 5, "output_tokens": 2, "total_tokens": 9, "cost_usd": 1}, 9, 0),
        ({"input_tokens": 5, "output_tokens": 2, "total_tokens": 1, "cost_usd": 1}, 7, 0),
        ({"input_tokens": -5, "output_tokens": "x", "cost_usd": -1}, 0, 1),
        ({"cost_usd": "NaN"}, 0, 1),
        ({"cost_usd": None}, 0, 1),
        (None, 0, 1),
    ],
)
def test_what_an_answer_used(usage: Any, tokens: int, unpriced: int) -> None:
    """Tokens that only the total has count too; what is no amount is no price, and nothing is given back."""
    budget = SessionBudget({})
    budget.add_usage(usage)
    [row] = budget.spent()
    assert (row["tokens"], row["unpriced"]) == (tokens, unpriced)


async def test_a_limit_that_is_near_is_told_once_in_the_tree() -> None:
    """At four fifths of a limit a warning is due, in the session whose call came so far, and nowhere again."""
    root, told = SessionBudget({"tokens": 10}), []
    root.account.session_id = "root"
    for budget in (root.child(), root.child()):
        coordinator: Any = MockCoordinator()
        coordinator.hooks.register("budget:warning", lambda event, data: told.append(data))
        budget.connect(coordinator)
        for _ in range(2):
            usage = {"output_tokens": 4, "cost_usd": 0}
            await coordinator.hooks.emit("llm:response", {"status": "ok", "usage": usage})
    [warning] = told
    assert (warning["limit"], warning["amount"], warning["limit_of"]) == ("tokens", "10", "root")
    assert warning["used"]["tokens"] == "8"


async def test_a_provider_without_events_of_its_own_is_counted() -> None:
    """Where no event of the provider says what an answer used, that of the loop does, and only then."""
    coordinator: Any = MockCoordinator()
    budget = SessionBudget({"tokens": 100})
    budget.connect(coordinator)
    usage = {"output_tokens": 4, "cost_usd": 0}
    for number, says_so in enumerate((False, True)):
        span = {"span_id": str(number)}
        await coordinator.hooks.emit("provider:request", span)
        if says_so:
            await coordinator.hooks.emit("llm:request", span)
            await coordinator.hooks.emit("llm:response", {**span, "status": "ok", "usage": usage})
        await coordinator.hooks.emit("provider:response", {**span, "usage": usage})
    assert (budget.used()["tokens"], budget.used()["turns"]) == (Decimal(8), Decimal(2))


async def test_the_budget_is_there_for_everybody() -> None:
    """Whoever asks a model outside of the loop finds the budget under its name, and its events are announced."""
    coordinator: Any = MockCoordinator()
    budget = SessionBudget({})
    budget.connect(coordinator)
    assert coordinator.get_capability("session.budget") is budget
    [events] = await coordinator.collect_contributions("observability.events")
    assert events == ["budget:warning", "budget:exhausted"]
