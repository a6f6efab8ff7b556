"""Measure what it costs to ask a budget whether there is room for another call.

    python benchmarks/budget.py [--rounds 25] [--json]

The budget is that of a session four levels below the first one, and every one of the five has all limits there are, so
that each has to be looked at. A check is what a provider does before every attempt; to reserve is what happens before
every tool call; to count is what happens after every answer, in all five. Rounds are of 1,000, and the lower quartile
of the rounds counts: what else the machine did at the time only ever adds. Prints a table, or with --json one object
`{"rows": [{"what", "ms", "target_ms", "met"}]}`; exits 1 when a target is missed, 2 when a budget says what is wrong.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from measured import lower_quartile, measuring, show

from amplifier_core.testing import MockCoordinator
from amplifier_foundation.usage.budget import SessionBudget
from amplifier_kit.engine.usage import require_allowance

TARGET_MS = 0.005
#: Counting is separate from checking and has its own target, so that it stays unnoticeable.
COUNT_TARGET_MS = 0.05
LEVELS = 4
CALLS = 1000
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


def timed(call: Callable[[], Any]) -> float:
    """Return how long one call takes, in milliseconds, over a round of them."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) * 1000 / CALLS


def measure(rounds: int) -> list[dict[str, Any]]:
    """Return the rows: what was measured, how long it took and its target."""
    limited, spent = deep_budget(LIMITS), deep_budget(LIMITS)
    spent.add_usage({"output_tokens": 10**12, "cost_usd": 0})
    coordinator: Any = MockCoordinator()
    coordinator.register_capability("session.budget", limited)
    if limited.check() is not None or spent.check() is None:
        print("a budget with room refuses, or one without allows", file=sys.stderr)
        sys.exit(2)
    calls: list[tuple[str, Callable[[], Any], float]] = [
        ("check five levels without limits", deep_budget({}).check, TARGET_MS),
        ("check five levels with all limits", limited.check, TARGET_MS),
        ("check five levels, used up", spent.check, TARGET_MS),
        ("check as a provider does, before an attempt", lambda: require_allowance(coordinator, "p", "m"), TARGET_MS),
        ("reserve a tool call, five levels", lambda: limited.reserve("tool_calls"), TARGET_MS),
        ("count an answer, five levels", lambda: limited.add_usage(USAGE), COUNT_TARGET_MS),
    ]
    rows = []
    for what, call, target in calls:
        taken = lower_quartile([timed(call) for _ in range(rounds)])
        rows.append({"what": what, "ms": taken, "target_ms": target, "met": taken <= target})
    return rows


def main() -> int:
    """Measure, print, and return the exit status."""
    options = measuring(__doc__, rounds=25).parse_args()
    return show(measure(options.rounds), as_json=options.json, unit="µs")


if __name__ == "__main__":
    sys.exit(main())
