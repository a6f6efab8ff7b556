"""Whatever a history looks like, what is sent is what the service takes."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import Message
from amplifier_kit.llm import read_conversation
from amplifier_module_provider_ollama.messages import messages_of

TEXT = st.sampled_from(["", " ", "a", "b c", "ü"])
CALL_ID = st.sampled_from(["c1", "c2", "functions.look:0", "x" * 80, ""])
BLOCK = st.one_of(
    TEXT.map(lambda text: {"type": "text", "text": text}),
    st.sampled_from(
        [
            {"type": "thinking", "thinking": "own", "signature": "c2ln", "origin": "ollama"},
            {"type": "thinking", "thinking": "o", "content": [{"ollama:x": "c2ln"}], "origin": "ollama"},
            {"type": "thinking", "thinking": "foreign", "signature": "Zm9y", "origin": "anthropic"},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "redacted_thinking", "data": "foreign", "origin": "openai"},
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
    return messages_of(read_conversation([Message(**message) for message in messages]))


@given(ANY)
def test_the_service_takes_it(messages: list[dict[str, Any]]) -> None:
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


ROUND = st.tuples(TEXT, st.lists(BLOCK, max_size=2), st.integers(0, 2), TEXT)


@given(st.lists(ROUND, max_size=5))
def test_the_beginning_stays(rounds: list[tuple[str, list[dict[str, Any]], int, str]]) -> None:
    """However a sound history goes on, everything before its last message is sent the same as before."""
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
        assert whole.startswith(json.dumps(_sent(stage)[:-1])[:-1])
