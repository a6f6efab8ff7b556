"""Whatever a history looks like, what is sent is what the service takes."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import Message
from amplifier_kit.llm import read_conversation
from amplifier_module_provider_gemini.contents import contents_of

TEXT = st.sampled_from(["", " ", "a", "b c", "ü"])
CALL_ID = st.sampled_from(["c1", "c2", "functions.look:0", "x" * 80, ""])
BLOCK = st.one_of(
    TEXT.map(lambda text: {"type": "text", "text": text}),
    st.sampled_from(
        [
            {"type": "thinking", "thinking": "own", "signature": "c2ln", "origin": "gemini"},
            {"type": "thinking", "thinking": "o", "content": [{"gemini:text_signature": "c2ln"}], "origin": "gemini"},
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


def _sent(messages: list[dict[str, Any]], *, is_third: bool = False) -> list[dict[str, Any]]:
    return contents_of(read_conversation([Message(**message) for message in messages]), is_third=is_third)


def _ids(content: dict[str, Any], kind: str) -> list[str]:
    return [part[kind]["id"] for part in content["parts"] if kind in part]


@given(ANY, st.booleans())
def test_the_service_takes_it(messages: list[dict[str, Any]], is_third: bool) -> None:
    """The user begins, no part is blank, and calls are followed at once by just their results."""
    sent = _sent(messages, is_third=is_third)
    assert not sent or sent[0]["role"] == "user"
    for index, content in enumerate(sent):
        assert content["parts"]
        assert all(part["text"].strip() for part in content["parts"] if "text" in part)
        calls = _ids(content, "functionCall")
        assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", call_id) for call_id in calls)
        following = _ids(sent[index + 1], "functionResponse") if index + 1 < len(sent) else []
        assert sorted(calls) == sorted(following)
        if calls and is_third:
            assert next(part for part in content["parts"] if "functionCall" in part)["thoughtSignature"]
        if _ids(content, "functionResponse"):
            assert not any("text" in part for part in content["parts"])
    assert "foreign" not in json.dumps(sent)
    assert "unsigned" not in json.dumps(sent)


ROUND = st.tuples(TEXT, st.lists(BLOCK, max_size=2), st.integers(0, 2), TEXT)


@given(st.lists(ROUND, max_size=5), st.booleans())
def test_the_beginning_stays(rounds: list[tuple[str, list[dict[str, Any]], int, str]], is_third: bool) -> None:
    """However a sound history goes on, everything before its last content is sent the same as before."""
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
    whole = json.dumps(_sent(history, is_third=is_third))
    for stage in stages:
        assert whole.startswith(json.dumps(_sent(stage, is_third=is_third)[:-1])[:-1])
