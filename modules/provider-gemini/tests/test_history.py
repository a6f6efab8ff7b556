"""Whatever a history looks like, what is sent is what the service takes."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import Message
from amplifier_kit.llm.request import read_conversation
from amplifier_module_provider_gemini.request import contents_of
from amplifier_testing.llm.histories import History, any_history, growing_history

BLOCKS: History = [
    {"type": "thinking", "thinking": "own", "signature": "c2ln", "origin": "gemini"},
    {"type": "thinking", "thinking": "o", "content": [{"gemini:text_signature": "c2ln"}], "origin": "gemini"},
    {"type": "thinking", "thinking": "foreign", "signature": "Zm9y", "origin": "anthropic"},
    {"type": "thinking", "thinking": "unsigned"},
    {"type": "redacted_thinking", "data": "foreign", "origin": "openai"},
]


def _sent(messages: History, *, is_third: bool = False) -> list[dict[str, Any]]:
    return contents_of(read_conversation([Message(**message) for message in messages]), is_third=is_third)


def _ids(content: dict[str, Any], kind: str) -> list[str]:
    return [part[kind]["id"] for part in content["parts"] if kind in part]


@given(any_history(BLOCKS), st.booleans())
def test_the_service_takes_it(messages: History, is_third: bool) -> None:
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


@given(growing_history(BLOCKS), st.booleans())
def test_the_beginning_stays(stages: list[History], is_third: bool) -> None:
    """However a sound history goes on, everything before its last content is sent the same as before."""
    whole = json.dumps(_sent(stages[-1], is_third=is_third))
    for stage in stages:
        assert whole.startswith(json.dumps(_sent(stage, is_third=is_third)[:-1])[:-1])
