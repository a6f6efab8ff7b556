"""Whatever a history looks like, what is sent is what the service takes."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import Message
from amplifier_kit.llm import read_conversation
from amplifier_module_provider_anthropic.messages import messages_of

TEXT = st.sampled_from(["", " ", "a", "b c", "ü"])
CALL_ID = st.sampled_from(["c1", "c2", "functions.look:0", "x" * 80, ""])
BLOCK = st.one_of(
    TEXT.map(lambda text: {"type": "text", "text": text}),
    st.sampled_from(
        [
            {"type": "thinking", "thinking": "own", "signature": "s", "origin": "anthropic"},
            {"type": "thinking", "thinking": "foreign", "signature": "s", "origin": "gemini"},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "redacted_thinking", "data": "d", "origin": "openai"},
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
