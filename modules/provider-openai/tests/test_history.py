"""Whatever a history looks like, what is sent is what the service takes."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import Message
from amplifier_kit.llm import read_conversation
from amplifier_kit.llm.responses.items import items_of

TEXT = st.sampled_from(["", " ", "a", "b c", "ü"])
CALL_ID = st.sampled_from(["c1", "c2", "functions.look:0", "x" * 80, ""])
OWN = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "own"}
BLOCK: st.SearchStrategy[dict[str, Any]] = st.one_of(
    TEXT.map(lambda text: {"type": "text", "text": text}),
    st.sampled_from(
        [
            {"type": "text", "text": "known", "openai:item": {"id": "msg_1", "status": "completed"}},
            {"type": "thinking", "thinking": "hm", "content": [OWN], "origin": "openai"},
            {"type": "thinking", "thinking": "hm", "content": [{**OWN, "id": "foreign"}], "origin": "azure-openai"},
            {"type": "thinking", "thinking": "foreign", "signature": "s", "origin": "anthropic"},
            {"type": "thinking", "thinking": "foreign", "content": ["x", "y"]},
            {"type": "thinking", "thinking": "foreign"},
            {"type": "redacted_thinking", "data": "foreign", "origin": "anthropic"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
        ]
    ),
)


def _assistant(blocks: list[dict[str, Any]], ids: list[str]) -> dict[str, Any]:
    calls = [{"id": call_id, "tool": "look", "arguments": {}} for call_id in ids]
    said = [block for block in blocks if block["type"] != "image"]
    return {"role": "assistant", "content": said, "tool_calls": calls}


ANY = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["user", "system", "developer"]), TEXT).map(
            lambda pair: {"role": pair[0], "content": pair[1]}
        ),
        st.lists(BLOCK, max_size=3).map(lambda blocks: {"role": "user", "content": blocks}),
        st.tuples(st.lists(BLOCK, max_size=3), st.lists(CALL_ID, max_size=2)).map(lambda pair: _assistant(*pair)),
        st.tuples(CALL_ID, TEXT).map(lambda pair: {"role": "tool", "tool_call_id": pair[0], "content": pair[1]}),
    ),
    max_size=8,
)


def _sent(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    turns = items_of(read_conversation([Message(**message) for message in messages]), "openai")
    return [item for turn in turns for item in turn]


@given(ANY)
def test_the_service_takes_it(messages: list[dict[str, Any]]) -> None:
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


ROUND = st.tuples(TEXT, st.lists(BLOCK, max_size=2), st.integers(0, 2), TEXT)


@given(st.lists(ROUND, max_size=5))
def test_the_beginning_stays(rounds: list[tuple[str, list[dict[str, Any]], int, str]]) -> None:
    """However a sound history goes on, everything before is sent the same as before."""
    history: list[dict[str, Any]] = [{"role": "system", "content": "s"}]
    stages = []
    for number, (text, blocks, calls, late) in enumerate(rounds):
        history += [{"role": "user", "content": text or "x"}]
        stages.append(list(history))
        ids = [f"c{number}_{call}" for call in range(calls)]
        history += [_assistant([*blocks, {"type": "text", "text": "said"}], ids)]
        history += [{"role": "tool", "tool_call_id": call_id, "content": "r"} for call_id in ids]
        history += [{"role": "system", "content": late}] if late else []
        stages.append(list(history))
    whole = json.dumps(_sent(history))
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
