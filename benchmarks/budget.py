"""Measure what it costs to ask a budget whether there is room for another call.

The budget is that of a session four levels below the first one, and every one of the five has all limits there are, so
that each has to be looked at. A check is what a provider does before every attempt; to reserve is what happens before
every tool call; to count is what happens after every answer, in all five. Rounds are of `size` calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness import Row, Setting, lower_quartile, microseconds

from amplifier_core.testing import MockCoordinator
from amplifier_foundation.usage.budget import SessionBudget
from amplifier_kit.engine.usage import require_allowance

TARGET_US = 5
#: Counting is separate from checking and has its own target, so that it stays unnoticeable.
COUNT_TARGET_US = 50
LEVELS = 4
LIMITS = {
    "usd": 10**9,
    "tokens": 10**12,
    "turns": 10**9,
    "seconds": 10**6,
    "tool_calls": 10**9,
    "depth": 9,
    "fan_out": 9,
}
USAGE = {"input_tokens": 900, "output_tokens": 100, "total_tokens": 1000, "cost_usd": "0.0123"}


def deep_budget(limits: dict[str, Any]) -> SessionBudget:
    """Return the budget of the session at the bottom of a tree, all with these limits."""
    budget = SessionBudget(limits)
    for level in range(LEVELS):
        budget = budget.open_child(f"agent-{level}", limits)
    return budget


def measure(setting: Setting) -> list[Row]:
    """Return the rows; raise RuntimeError when a budget answers wrongly."""
    limited, spent = deep_budget(LIMITS), deep_budget(LIMITS)
    spent.add_usage({"output_tokens": 10**12, "cost_usd": 0})
    coordinator: Any = MockCoordinator()
    coordinator.register_capability("session.budget", limited)
    if limited.check() is not None or spent.check() is None:
        raise RuntimeError("a budget with room refuses, or one without allows")
    calls: list[tuple[str, Callable[[], Any], float]] = [
        ("check five levels without limits", deep_budget({}).check, TARGET_US),
        ("check five levels with all limits", limited.check, TARGET_US),
        ("check five levels, used up", spent.check, TARGET_US),
        ("check as a provider does, before an attempt", lambda: require_allowance(coordinator, "p", "m"), TARGET_US),
        ("reserve a tool call, five levels", lambda: limited.reserve("tool_calls"), TARGET_US),
        ("count an answer, five levels", lambda: limited.add_usage(USAGE), COUNT_TARGET_US),
    ]
    rows = []
    for what, call, target in calls:
        taken = [microseconds(call, repeat=setting.size) for _ in range(setting.rounds)]
        rows.append(Row(what, lower_quartile(taken), "µs", most=target))
    return rows
