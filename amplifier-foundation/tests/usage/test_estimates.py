"""A question that was broken off has no price, and is not free: it counts as the dearest answer so far."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.testing import MockCoordinator
from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.usage.budget import SessionBudget

_CUT = {"status": "error", "error": {"type": "CancelledError"}}


def _connected(budget: SessionBudget) -> Any:
    coordinator: Any = MockCoordinator()
    budget.connect(coordinator)
    return coordinator


def _answer(usd: str | None, model: str = "m", **more: Any) -> dict[str, Any]:
    usage = {"output_tokens": 1, **({} if usd is None else {"cost_usd": usd})}
    return {"provider": "p", "model": model, "status": "ok", "usage": usage, **more}


def _cut(model: str = "m") -> dict[str, Any]:
    return {"provider": "p", "model": model, **_CUT}


@pytest.mark.parametrize(
    ("told", "usd", "estimated", "refused"),
    [
        ([_answer("0.1"), _answer("0.3"), _answer("0.2"), _cut()], "0.9", "0.3", False),
        ([_answer("0.1"), _answer("0.5", "dear"), _cut()], "0.7", "0.1", False),
        ([_answer("0.1"), _answer("0.5", "dear"), _cut("new")], "1.1", "0.5", False),
        ([_answer("0.1"), _cut("new"), _cut("new"), _cut("new")], "0.4", "0.3", False),
        ([_answer("0.1"), _cut("new"), _cut("new"), _cut("new"), _cut("new")], "0.4", "0.3", True),
        ([_answer("0.1"), *[_cut()] * 5], "0.6", "0.5", False),
        ([_answer("0.1", unpriced_attempts=2)], "0.3", "0.2", False),
        ([_answer("0"), _cut()], "0", "0", False),
        ([_answer("0"), _cut("paid")], "0", "0", True),
        ([_cut()], "0", "0", True),
        ([_answer("0.1"), _answer(None)], "0.1", "0", True),
        ([_answer("0.1"), {**_answer("0.1"), "usage": {"output_tokens": "many", "cost_usd": "0.1"}}], "0.1", "0", True),
        (
            [_answer("0.1"), {**_answer("0.1"), "usage": {"output_tokens": 1, "cost_usd": "nan"}}],
            "0.1",
            "0",
            True,
        ),
        ([_answer("0.1"), {**_answer("0.1"), "usage": {"output_tokens": -1, "cost_usd": "0"}}], "0.1", "0", True),
        ([_answer("0.1"), {**_answer("0.1"), "usage": {"output_tokens": True, "cost_usd": "0"}}], "0.1", "0", True),
        ([_answer("0.1"), {**_answer("0.1"), "usage": "much"}], "0.1", "0", True),
        ([_answer("4"), _answer("4"), _cut()], "12", "4", True),
        ([_answer("0.1"), {**_cut(), "error": {"type": "RateLimitError"}}], "0.1", "0", False),
    ],
)
async def test_what_a_broken_question_costs(told: list[Any], usd: str, estimated: str, refused: bool) -> None:
    """It is the dearest answer of its model, else of any a few times; free ones say nothing of others, none is no."""
    budget = SessionBudget({"usd": 10})
    coordinator = _connected(budget)
    for data in told:
        await coordinator.hooks.emit("llm:response", data)
    used = budget.used()
    assert (used["usd"], used["estimated_usd"]) == (Decimal(usd), Decimal(estimated))
    assert (budget.check() is not None) is refused
    assert budget.account.total.known_cost == Decimal(usd) - Decimal(estimated)


async def test_estimates_are_told() -> None:
    """The events and the reason of a limit say how much of it is estimated, and so do the rows of who used what."""
    events: list[dict[str, Any]] = []
    budget = SessionBudget({"usd": 2})
    coordinator = _connected(budget)
    coordinator.hooks.register("budget:exhausted", lambda event, data: events.append(data))
    for data in (_answer("1"), _cut()):
        await coordinator.hooks.emit("llm:response", data)
    await coordinator.hooks.emit("provider:request", {})
    [told] = events
    assert told["reason"] == "the budget of 2 usd is used up (2 used, 1 of it estimated)"
    assert (told["used"]["usd"], told["used"]["estimated_usd"]) == ("2", "1")
    assert [(row["usd"], row["estimated_usd"], row["unpriced"]) for row in told["spent"]] == [("2", "1", 0)]


_prices = st.decimals(0, 5, places=2).map(str)
_told = st.one_of(
    st.builds(_answer, _prices, st.sampled_from(["m", "n"]), unpriced_attempts=st.integers(0, 2)),
    st.builds(_answer, st.none()),
    st.builds(_cut, st.sampled_from(["m", "n"])),
)


@given(st.lists(st.tuples(st.integers(0, 2), _told), max_size=12))
def test_charges_grow_and_add_up(steps: list[tuple[int, dict[str, Any]]]) -> None:
    """Whatever children use in any order: no charge shrinks, and all are counted for the parent too."""

    async def main() -> None:
        root = SessionBudget({"usd": 1000})
        budgets = [root, root.child(), root.child()]
        sessions = [_connected(one) for one in budgets]
        for number, data in steps:
            before, before_below = root.used(), budgets[number].used()
            await sessions[number].hooks.emit("llm:response", data)
            now, below = root.used(), budgets[number].used()
            for name in ("usd", "estimated_usd", "tokens"):
                assert now[name] - before[name] == below[name] - before_below[name] >= 0
            assert 0 <= now["estimated_usd"] <= now["usd"]
            assert sum(Decimal(row["estimated_usd"]) for row in root.spent()) == now["estimated_usd"]

    asyncio.run(main())


async def test_a_child_that_hangs_ends_nobody_else(tmp_path: Path) -> None:
    """With a limit of dollars, a child that is stopped is charged an estimate, and its parent goes on."""
    paid = {"input_tokens": 8, "output_tokens": 2, "cost_usd": "0.01"}
    said, hangs = {"text": "Done.", "usage": paid}, {"text": "Never.", "delay_ms": 60_000}
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": [said, said], "agents": {"helper": [hangs]}}), encoding="utf-8")
    plan = {
        "session": {
            "orchestrator": {"module": "loop-basic"},
            "context": {"module": "context-simple"},
            "budget": {"usd": 10},
        },
        "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}],
        "agents": {"helper": {"description": "Helps.", "instruction": "You help."}},
    }
    asked = asyncio.Event()

    def on_child_event(facts: Any, event: str, data: Any) -> None:
        if event == "llm:request":
            asked.set()

    prepared = Prepared.from_plan(plan, tmp_path / "home", tmp_path)
    async with SessionRuntime(prepared, on_child_event=on_child_event, spawner=Spawner()) as runtime:
        assert await runtime.execute("go") == "Done."
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        child = asyncio.create_task(spawn("helper", "help"))
        await asked.wait()
        await asyncio.sleep(0.2)  # from the event to the answer that does not come
        child.cancel()
        with pytest.raises(asyncio.CancelledError):
            await child
        used = runtime.budget.used()
        assert (used["usd"], used["estimated_usd"]) == (Decimal("0.02"), Decimal("0.01"))
        assert await runtime.execute("more") == "Done."
