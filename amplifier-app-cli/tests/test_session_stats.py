"""What is counted of a turn."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_app_cli.session_stats import SessionStats
from amplifier_core.testing import MockCoordinator
from amplifier_foundation.usage.account import UsageAccount


def _connected() -> tuple[Any, SessionStats]:
    coordinator: Any = MockCoordinator()
    account, stats = UsageAccount(), SessionStats()
    account.connect(coordinator)
    stats.connect(coordinator.hooks, account)
    return coordinator.hooks, stats


async def test_a_changed_input_is_the_same_call() -> None:
    """A call whose input a person has changed is in the trace once, in its place, with what it ran with."""
    hooks, stats = _connected()
    for name, call, more in (("a", "1", {}), ("b", "2", {}), ("a", "1", {"edits": 1})):
        data: dict[str, Any] = {"tool_name": name, "tool_call_id": call, "tool_input": {"x": len(more)}, **more}
        await hooks.emit("tool:pre", data)
    await hooks.emit("tool:post", {"tool_call_id": "1", "result": {"success": True}})
    assert [(call["tool"], call["arguments"], call["sequence"]) for call in stats.trace] == [
        ("a", {"x": 1}, 1),
        ("b", {"x": 0}, 2),
    ]
    assert stats.trace[0]["result"] == {"success": True}


async def test_an_attempt_that_broke_off_makes_the_cost_unknown() -> None:
    """What an attempt cost that brought nothing is known to nobody: the known part is not told as if it were all."""
    hooks, stats = _connected()
    paid = {"usage": {"input_tokens": 3, "cost_usd": "0.5"}}
    await hooks.emit("llm:response", {**paid, "unpriced_attempts": 0})
    before = stats.cost
    assert before == "0.5"
    await hooks.emit("llm:response", {**paid, "unpriced_attempts": 1})
    assert (stats.cost, stats.usage) == (None, {"input_tokens": 6})


@pytest.mark.parametrize(
    ("failure", "cost"),
    [
        ({"error": {"type": "RateLimitError"}}, "0.5"),
        ({"error": {"type": "StreamError"}, "unpriced_attempts": 0}, "0.5"),
        ({"error": {"type": "StreamError"}, "unpriced_attempts": 1}, None),
        ({"error": {"type": "StreamError"}}, None),
    ],
)
async def test_a_question_that_was_refused_costs_nothing(failure: dict[str, Any], cost: str | None) -> None:
    """A failure before an answer began leaves the cost known, as the budget counts it; any other may have cost more."""
    hooks, stats = _connected()
    await hooks.emit("llm:response", {"usage": {"input_tokens": 3, "cost_usd": "0.5"}})
    await hooks.emit("llm:response", {"status": "error", **failure})
    assert (stats.cost, stats.usage) == (cost, {"input_tokens": 3})


async def test_an_answer_without_a_price_makes_the_cost_unknown() -> None:
    """What a service does not count is unknown, not free."""
    hooks, stats = _connected()
    await hooks.emit("llm:response", {"status": "ok"})
    assert stats.cost is None
