"""`/cost` says who asked the model, when it was not the loop alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_app_cli.chat.commands.info import cost
from amplifier_app_cli.session_stats import SessionStats
from amplifier_core.hooks import HookRegistry
from amplifier_core.testing import MockCoordinator
from amplifier_foundation.usage.budget import SessionBudget

USAGE = {"input_tokens": 900, "output_tokens": 100, "cost_usd": "0.25"}


@pytest.mark.parametrize("has_hook", [False, True])
async def test_rows_only_where_there_are_several(has_hook: bool) -> None:
    """A session that only the loop has asked for has one sum; else every agent, tool and hook has a line."""
    said: list[str] = []
    budget = SessionBudget({})
    budget.add_usage(USAGE)
    if has_hook:
        budget.child(agent="explorer").add_usage(USAGE, "hook:judge")
    stats = SessionStats()
    stats.connect(HookRegistry(), budget.account)
    chat: Any = SimpleNamespace(
        usage=stats,
        screen=SimpleNamespace(show=said.append),
        coordinator=MockCoordinator(),
        runtime=SimpleNamespace(account=budget.account),
    )
    await cost(chat, "")
    told = [line for line in said if line.startswith("used by ")]
    expected = ["loop: 1 call, 1,000 tokens, $0.2500", "explorer, hook:judge: 1 call, 1,000 tokens, $0.2500"]
    assert told == ([f"used by {line}" for line in expected] if has_hook else [])
