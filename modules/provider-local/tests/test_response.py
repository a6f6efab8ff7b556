"""Calls are found in text however it is cut, and text stays text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.llm_errors import InvalidToolCallError
from amplifier_kit.engine.stream_events import StreamEmitter
from amplifier_kit.llm.response import Answer, LLMResponse
from amplifier_module_provider_local.response import CallReader

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_TEXTS = st.text(alphabet=st.sampled_from('ab <tol_c>/\n{}"'), max_size=30).filter(
    lambda text: "<tool_call>" not in text
)


def written(name: str, arguments: Any) -> str:
    """Return a call as the grammar has models write it."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>\n"


async def read(pieces: list[str], reason: Any = "stop") -> LLMResponse:
    """Return what comes of text that arrives in these pieces."""
    answer = Answer(StreamEmitter(None, None, enabled=False), "llama")
    reader = CallReader(answer)
    for piece in pieces:
        await reader.feed(piece)
    if reason != "length":
        await reader.end()
    await answer.finish(reason)
    return answer.response()


@given(
    text=_TEXTS,
    calls=st.lists(st.tuples(st.text(min_size=1, max_size=6), st.dictionaries(st.text(max_size=4), _JSON)), max_size=3),
    cuts=st.lists(st.integers(1, 9), max_size=60),
)
async def test_however_it_is_cut(text: str, calls: list[tuple[str, dict[str, Any]]], cuts: list[int]) -> None:
    """Text and calls come out as they were written, in pieces of any size, with any JSON in the arguments."""
    whole = text + "".join(written(name, arguments) for name, arguments in calls)
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(whole[at : at + cut])
        at += cut
    response = await read([*pieces, whole[at:]])
    assert [(call.name, call.arguments) for call in response.tool_calls or ()] == calls
    assert (response.text or "") == (text.rstrip() if calls else text)


@pytest.mark.parametrize(
    "broken",
    [
        "<tool_call>",
        "<tool_call>\nI would like to call look.\n</tool_call>",
        '<tool_call>\n{"name": "look"}\n</tool_call>',
        '<tool_call>\n{"name": "look", "arguments": [1]}\n</tool_call>',
        '<tool_call>\n{"name": "look", "arguments": {"a": nothing}}\n</tool_call>',
        '<tool_call>\n{"name": "look", "arguments": {"a": 1',
        "<tool_call>" + "x" * 2000,
    ],
)
async def test_calls_that_cannot_be_read(broken: str) -> None:
    """What begins like a call and is none is an error, not text and not a call."""
    with pytest.raises(InvalidToolCallError):
        await read([broken])


async def test_a_call_that_was_cut_off() -> None:
    """A call that reached the limit of tokens says so, and is not tried again."""
    with pytest.raises(InvalidToolCallError, match="raise max_tokens") as caught:
        await read(['<tool_call>\n{"name": "look", "arguments": {"a": "bcd'], "length")
    assert not caught.value.retryable
