"""Conversations as chat messages."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import Message
from amplifier_kit.llm.chat.request import messages_of
from amplifier_kit.llm.request import read_conversation

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
URL = "data:image/png;base64,QQ=="
TEXT = st.sampled_from(["", " ", "a", "b c", "ü"])
CALL_ID = st.sampled_from(["c1", "c2", "functions.look:0", "x" * 80, ""])
BLOCK: st.SearchStrategy[dict[str, Any]] = st.one_of(
    TEXT.map(lambda text: {"type": "text", "text": text}),
    st.sampled_from(
        [
            {"type": "thinking", "thinking": "own", "origin": "chat-completions"},
            {"type": "thinking", "thinking": "foreign", "signature": "s", "origin": "openai", "content": ["enc", 1]},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "redacted_thinking", "data": "hidden", "origin": "anthropic"},
            IMAGE,
        ]
    ),
)


def _sent(*messages: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    return messages_of(read_conversation([Message(**message) for message in messages]), **options)


def _assistant(blocks: list[dict[str, Any]], ids: list[str]) -> dict[str, Any]:
    calls = [{"id": call_id, "tool": "look", "arguments": {}} for call_id in ids]
    return {"role": "assistant", "content": [b for b in blocks if b["type"] != "image"], "tool_calls": calls}


def test_roles() -> None:
    """One system message in front, then user and assistant in turns; late instructions stay in their place."""
    sent = _sent(
        {"role": "system", "content": "Be kind."},
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "file"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "system", "content": "Hurry!"},
        {"role": "user", "content": "and?"},
    )
    assert sent == [
        {"role": "system", "content": "Be kind.\n\nBe brief."},
        {"role": "user", "content": "<context_file>\nfile\n</context_file>\n\nhi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "<system-reminder>\nHurry!\n</system-reminder>\n\nand?"},
    ]


def test_the_user_begins() -> None:
    """A conversation that begins with the assistant gets a first word: templates insist."""
    assert [m["role"] for m in _sent({"role": "assistant", "content": "hello"})] == ["user", "assistant"]


def test_calls_and_results() -> None:
    """Calls carry their arguments as JSON, an empty result says so, and images follow the last result."""
    sent = _sent(
        {"role": "user", "content": "go"},
        _assistant([], ["1", "2"]) | {"content": "I look."},
        {"role": "tool", "tool_call_id": "1", "name": "look", "content": [{"type": "text", "text": "seen"}, IMAGE]},
        {"role": "tool", "tool_call_id": "2", "content": ""},
        {"role": "user", "content": "thanks"},
    )
    function = {"name": "look", "arguments": "{}"}
    assert sent[1] == {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{"id": "1", "type": "function", "function": function} | {"id": n} for n in ("1", "2")],
    }
    assert sent[2:] == [
        {"role": "tool", "tool_call_id": "1", "content": "seen"},
        {"role": "tool", "tool_call_id": "2", "content": "(empty)"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Images from look:"},
                {"type": "image_url", "image_url": {"url": URL}},
                {"type": "text", "text": "thanks"},
            ],
        },
    ]


def test_thinking_goes_back_as_it_came() -> None:
    """Thinking of this wire goes back in the field it came in, signed details as details, and none when that is off."""
    own = {"type": "thinking", "thinking": "hm", "origin": "chat-completions"}
    said = {"role": "assistant", "content": [own, {"type": "text", "text": "yes"}]}
    assert _sent(said)[1]["reasoning_content"] == "hm"
    assert _sent({**said, "metadata": {"chat:reasoning_field": "reasoning"}})[1]["reasoning"] == "hm"
    assert "reasoning_content" in _sent({**said, "metadata": {"chat:reasoning_field": "role"}})[1]
    assert _sent(said, with_reasoning=False)[1] == {"role": "assistant", "content": "yes"}
    details = [{"type": "reasoning.text", "text": "hm", "signature": "s"}]
    signed = {"role": "assistant", "content": [own | {"content": details}, {"type": "text", "text": "yes"}]}
    assert _sent(signed)[1] == {"role": "assistant", "content": "yes", "reasoning_details": details}


def test_items_of_the_other_wire_are_no_details() -> None:
    """Signed thinking of another wire is not sent, even without an origin."""
    block = {"type": "thinking", "thinking": "hm", "content": ["encrypted", "rs_1"]}
    sent = _sent({"role": "assistant", "content": [block, {"type": "text", "text": "yes"}]})
    assert "encrypted" not in json.dumps(sent)


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


@given(ANY)
def test_servers_take_it(messages: list[dict[str, Any]]) -> None:
    """No two users in a row, no blank content, and every call is followed at once by its one result."""
    sent = _sent(*messages)
    roles = [message["role"] for message in sent]
    assert "system" not in roles[1:]
    assert all(pair != ("user", "user") for pair in itertools.pairwise(roles))
    seen: set[str] = set()
    for index, message in enumerate(sent):
        calls = [call["id"] for call in message.get("tool_calls", ())]
        assert message["content"] or calls
        assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", call_id) for call_id in calls)
        assert not seen & set(calls)
        seen.update(calls)
        results = [later["tool_call_id"] for later in sent[index + 1 : index + 1 + len(calls)] if calls]
        assert sorted(results) == sorted(calls)
    assert sum(role == "tool" for role in roles) == len(seen)
    written = json.dumps(sent)
    assert not [word for word in ("foreign", "unsigned", "hidden", "enc") if f'"{word}"' in written]


ROUND = st.tuples(TEXT, st.lists(BLOCK, max_size=2), st.integers(0, 2), TEXT)


@given(st.lists(ROUND, max_size=5))
def test_the_beginning_stays(rounds: list[tuple[str, list[dict[str, Any]], int, str]]) -> None:
    """However a sound history continues, everything before its last message is sent the same as before."""
    history: list[dict[str, Any]] = [{"role": "system", "content": "s"}]
    stages = []
    for number, (text, blocks, calls, late) in enumerate(rounds):
        history += [{"role": "user", "content": text or "x"}]
        stages.append(list(history))
        ids = [f"c{number}_{call}" for call in range(calls)]
        history += [_assistant([*blocks, {"type": "text", "text": "said"}], ids)]
        history += [{"role": "tool", "tool_call_id": call_id, "content": [IMAGE]} for call_id in ids]
        history += [{"role": "system", "content": late}] if late else []
        stages.append(list(history))
    whole = json.dumps(_sent(*history))
    for stage in stages:
        assert whole.startswith(json.dumps(_sent(*stage)[:-1])[:-1])
