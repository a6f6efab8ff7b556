"""Whatever a history looks like, what is sent is what the service takes."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given

from amplifier_core import Message
from amplifier_kit.llm.request import read_conversation
from amplifier_module_provider_ollama.messages import messages_of
from amplifier_testing.llm.histories import History, any_history, growing_history

BLOCKS: History = [
    {"type": "thinking", "thinking": "own", "signature": "c2ln", "origin": "ollama"},
    {"type": "thinking", "thinking": "o", "content": [{"ollama:x": "c2ln"}], "origin": "ollama"},
    {"type": "thinking", "thinking": "foreign", "signature": "Zm9y", "origin": "anthropic"},
    {"type": "thinking", "thinking": "unsigned"},
    {"type": "redacted_thinking", "data": "foreign", "origin": "openai"},
]


def _sent(messages: History) -> list[dict[str, Any]]:
    return messages_of(read_conversation([Message(**message) for message in messages]))


@given(any_history(BLOCKS))
def test_the_service_takes_it(messages: History) -> None:
    """No message is blank, and calls are followed at once by their results, each with its name."""
    sent = _sent(messages)
    for index, message in enumerate(sent):
        assert message["content"].strip() or message.get("images") or message.get("tool_calls")
        calls = [call["id"] for call in message.get("tool_calls", [])]
        assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", call_id) for call_id in calls)
        following = sent[index + 1 : index + 1 + len(calls)]
        assert [result["role"] for result in following] == ["tool"] * len(calls)
        assert sorted(result["tool_call_id"] for result in following) == sorted(calls)
        assert all(result["tool_name"] for result in following)
    assert "foreign" not in json.dumps(sent)
    assert "unsigned" not in json.dumps(sent)


@given(growing_history(BLOCKS))
def test_the_beginning_stays(stages: list[History]) -> None:
    """However a sound history goes on, everything before its last message is sent the same as before."""
    whole = json.dumps(_sent(stages[-1]))
    for stage in stages:
        assert whole.startswith(json.dumps(_sent(stage)[:-1])[:-1])
