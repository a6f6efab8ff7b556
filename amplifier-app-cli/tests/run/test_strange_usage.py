"""What a provider says of its usage is added up where it can be, and never breaks or falsifies a sum."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_app_cli.session_stats import SessionStats
from amplifier_app_cli.ui.spending import usage_line
from amplifier_core.testing import MockCoordinator
from amplifier_foundation.usage.account import UsageAccount

_STRANGE = ["many", True, -5, 1.5, float("nan"), float("inf"), 10**30, [], None]


@pytest.mark.parametrize("value", _STRANGE)
async def test_a_count_that_is_none_changes_no_sum(value: Any) -> None:
    """Neither the line behind an answer nor the result of a run counts it, and the cost is not known then."""
    coordinator: Any = MockCoordinator()
    hooks, stats, account = coordinator.hooks, SessionStats(), UsageAccount()
    account.connect(coordinator)
    stats.connect(hooks, account)
    for usage in (
        {"input_tokens": 7, "output_tokens": 2, "cost_usd": "0.5"},
        {"input_tokens": value, "output_tokens": value, "cost_usd": value},
    ):
        await hooks.emit("llm:response", {"provider": "hosted", "model": "m", "status": "ok", "usage": usage})
    assert (stats.usage["input_tokens"], stats.usage["output_tokens"], stats.cost) == (7, 2, None)
    assert usage_line(account.total) == "7 in · 2 out · $0.5000 and 1 without price"
