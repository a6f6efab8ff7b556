"""The notice says as much as it should, where it should."""

from typing import Any, Literal

import pytest

from amplifier_kit.engine.context.compaction import Compacted, compaction_notice, insert_notice
from amplifier_kit.engine.context.token_budget import ContextConfig, TokenBudget

MADE = Compacted(end=90, messages=[], tokens=4000, level=3, removed=41, truncated=7, stubbed=2)
ROOM = TokenBudget(10_000, 9_200, 700, 7_764, 3_900)


def text(verbosity: Literal["minimal", "normal", "verbose"]) -> str:
    notice = compaction_notice(MADE, ROOM, ContextConfig(compaction_notice_verbosity=verbosity))
    assert notice is not None
    return str(notice["content"])


def test_a_notice_is_an_ephemeral_system_message() -> None:
    """It is marked as what it is, and wrapped as reminders are."""
    notice = compaction_notice(MADE, ROOM, ContextConfig())
    assert notice is not None
    assert notice["role"] == "system"
    assert notice["metadata"] == {"source": "context-compaction", "ephemeral": True}
    assert notice["content"].startswith('<system-reminder source="context-compaction">\n')
    assert notice["content"].endswith("\n</system-reminder>")


def test_verbosity() -> None:
    """Each verbosity says what the one before says, and more."""
    assert "level 3" in text("minimal")
    assert "41 messages" not in text("minimal")
    assert "Left out: 41 messages. Truncated: 7 tool results. Shortened: 2 user messages." in text("normal")
    assert "10000" not in text("normal")
    assert "41 messages" in text("verbose")
    assert "first 90 messages take about 4000 tokens now; the request may take 10000" in text("verbose")


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"compaction_notice_enabled": False}, False),
        ({"compaction_notice_min_level": 3}, True),
        ({"compaction_notice_min_level": 4}, False),
    ],
)
def test_a_notice_can_be_unwanted(config: dict[str, Any], wanted: bool) -> None:
    """There is none when it is switched off, or when less was done than is worth a word."""
    assert (compaction_notice(MADE, ROOM, ContextConfig(**config)) is not None) is wanted


def test_the_notice_goes_in_at_index_1() -> None:
    """It stands second, or first where it would part a call from its results."""
    notice = {"role": "system", "content": "n"}
    user = {"role": "user", "content": "u"}
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "tool": "t"}]}
    result = {"role": "tool", "tool_call_id": "1", "content": ""}
    assert insert_notice([user, user], notice) == [user, notice, user]
    assert insert_notice([call, result], notice) == [notice, call, result]
    assert insert_notice([], notice) == [notice]
