"""The account of a session: every answer is counted once, in its session and in those above."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_foundation.usage.account import MOST_ROWS, UsageAccount
from amplifier_kit.engine.usage import UsageRecord

_USED = UsageRecord.of_usage({"input_tokens": 2, "output_tokens": 1, "cost_usd": "0.5"})


def _account(session_id: str, parent: UsageAccount | None = None, agent: str | None = None) -> UsageAccount:
    account = UsageAccount(parent, agent)
    account.session_id = session_id
    return account


def test_a_child_is_counted_above_it() -> None:
    """What a child used is in the total of its parents and not in what they used themselves."""
    root = _account("root")
    child = _account("child", root, "helper")
    deep = _account("deep", child, "helper")
    root.add(_USED)
    deep.add(_USED, "tool:think")
    assert (root.own, root.total) == (_USED, _USED + _USED)
    assert (child.own, child.total) == (UsageRecord(), _USED)
    assert [(row["session"], row["source"]) for row in root.rows()] == [("root", "loop"), ("deep", "tool:think")]


def test_every_answer_is_heard_once() -> None:
    """However many rows are merged, listeners hear each session's answers once, and the total holds them all."""
    root = _account("root")
    heard: dict[str, UsageRecord] = {}
    root.listeners.append(lambda session, used: heard.update({session: heard.get(session, UsageRecord()) + used}))
    sessions = [f"s{number}" for number in range(MOST_ROWS + 50)]
    for session in sessions:
        _account(session, root, "helper").add(_USED)
    assert heard == dict.fromkeys(sessions, _USED)
    assert root.total == sum([_USED] * len(sessions), UsageRecord())
    assert len(root.rows()) <= MOST_ROWS


async def test_invalid_usage_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A provider that reports something that cannot be counted is named, and the price of its answer is unknown."""
    coordinator: Any = MockCoordinator()
    account = UsageAccount()
    account.connect(coordinator)
    answer = {"provider": "hosted", "usage": {"input_tokens": "many", "output_tokens": 2, "cost_usd": "0.5"}}
    with caplog.at_level(logging.WARNING):
        await coordinator.hooks.emit("llm:response", answer)
    assert caplog.messages == ["invalid usage of hosted: input_tokens is 'many'; the price counts as unknown"]
    assert (account.own.output_tokens, account.own.input_tokens, account.own.cost) == (2, None, None)
