"""Whatever a history looks like, what is sent is what the service takes."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from hypothesis import given

from amplifier_core import Message
from amplifier_kit.llm.request import read_conversation
from amplifier_kit.llm.responses.request import items_of
from amplifier_testing.llm.histories import History, any_history, growing_history

OWN = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "own"}
BLOCKS: History = [
    {"type": "text", "text": "known", "openai:item": {"id": "msg_1", "status": "completed"}},
    {"type": "thinking", "thinking": "hm", "content": [OWN], "origin": "openai"},
    {"type": "thinking", "thinking": "hm", "content": [{**OWN, "id": "foreign"}], "origin": "azure-openai"},
    {"type": "thinking", "thinking": "foreign", "signature": "s", "origin": "anthropic"},
    {"type": "thinking", "thinking": "foreign", "content": ["x", "y"]},
    {"type": "thinking", "thinking": "foreign"},
    {"type": "redacted_thinking", "data": "foreign", "origin": "anthropic"},
]


def _sent(messages: History) -> list[dict[str, Any]]:
    turns = items_of(read_conversation([Message(**message) for message in messages]), "openai")
    return [item for turn in turns for item in turn]


@given(any_history(BLOCKS))
def test_the_service_takes_it(messages: History) -> None:
    """Every call has its one result behind it, reasoning leads to something, and nothing of others' is sent."""
    sent = _sent(messages)
    waiting: list[str] = []
    for item, following in itertools.zip_longest(sent, sent[1:]):
        if item["type"] == "function_call":
            assert re.fullmatch("[A-Za-z0-9_-]{1,64}", item["call_id"])
            waiting.append(item["call_id"])
        elif item["type"] == "function_call_output":
            waiting.remove(item["call_id"])
        elif item["type"] == "reasoning":
            assert following is not None
            assert following.get("role", "assistant") == "assistant"
        else:
            assert waiting == [] or item["role"] == "assistant"
            assert item["content"]
    assert waiting == []
    assert "foreign" not in json.dumps(sent)


@given(growing_history(BLOCKS))
def test_the_beginning_stays(stages: list[History]) -> None:
    """However a sound history goes on, everything before is sent the same as before."""
    whole = json.dumps(_sent(stages[-1]))
    for stage in stages:
        assert whole.startswith(json.dumps(_sent(stage))[:-1])


def test_messages_under_one_id() -> None:
    """Texts of one message are its parts again; calls come without blanks, as models write them."""
    known = {"openai:item": {"id": "msg_1", "status": "completed", "phase": "commentary"}}
    blocks = [{"type": "text", "text": text, **known} for text in ("a", "b")]
    call = {"type": "tool_call", "id": "c1", "name": "look", "input": {"a": "ü", "b": 1}, "openai:item": {"id": "fc_1"}}
    done = {"role": "tool", "tool_call_id": "c1", "content": "r"}
    message, made, _ = _sent([{"role": "assistant", "content": [*blocks, call]}, done])
    assert [part["text"] for part in message["content"]] == ["a", "b"]
    assert (message["id"], message["phase"]) == ("msg_1", "commentary")
    assert (made["id"], made["arguments"]) == ("fc_1", '{"a":"ü","b":1}')
