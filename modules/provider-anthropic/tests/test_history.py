"""Whatever a history looks like, what is sent is what the service takes."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given

from amplifier_core import Message
from amplifier_kit.llm.request import read_conversation
from amplifier_module_provider_anthropic.request import messages_of
from amplifier_testing.llm.histories import History, any_history, growing_history

BLOCKS: History = [
    {"type": "thinking", "thinking": "own", "signature": "s", "origin": "anthropic"},
    {"type": "thinking", "thinking": "foreign", "signature": "s", "origin": "gemini"},
    {"type": "thinking", "thinking": "unsigned"},
    {"type": "redacted_thinking", "data": "d", "origin": "openai"},
]


def _sent(messages: History) -> list[dict[str, Any]]:
    return messages_of(read_conversation([Message(**message) for message in messages]))


@given(any_history(BLOCKS))
def test_the_service_takes_it(messages: History) -> None:
    """Roles take turns, no content is blank, and every call is followed at once by its one result."""
    sent = _sent(messages)
    assert [message["role"] for message in sent] == ["user", "assistant"] * (len(sent) // 2) + ["user"] * (
        len(sent) % 2
    )
    seen: set[str] = set()
    for index, message in enumerate(sent):
        assert message["content"]
        assert all(block["text"].strip() for block in message["content"] if block["type"] == "text")
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", call_id) for call_id in calls)
        assert not seen & set(calls)
        seen.update(calls)
        following = sent[index + 1]["content"] if index + 1 < len(sent) else []
        results = [block["tool_use_id"] for block in following if block["type"] == "tool_result"]
        if message["role"] == "assistant":
            assert sorted(calls) == sorted(results)
            kinds = [block["type"] == "tool_result" for block in following]
            assert kinds == sorted(kinds, reverse=True)
    assert "foreign" not in json.dumps(sent)
    assert "unsigned" not in json.dumps(sent)


@given(growing_history(BLOCKS))
def test_the_beginning_stays(stages: list[History]) -> None:
    """However a sound history goes on, everything before its last message is sent the same as before."""
    whole = json.dumps(_sent(stages[-1]))
    for stage in stages:
        assert whole.startswith(json.dumps(_sent(stage)[:-1])[:-1])
