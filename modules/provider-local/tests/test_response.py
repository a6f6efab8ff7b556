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
    reader = CallReader(answer, {"look"})
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


FENCED = '```json\n{"name": "look", "arguments": {"a": "``` }"}}\n```'


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_a_call_in_a_fence(size: int) -> None:
    """Models for code write their calls as JSON in a fence: it is a call when it names a tool that was offered."""
    whole = f"I look. {FENCED}\n{FENCED}"
    response = await read([whole[at : at + size] for at in range(0, len(whole), size)])
    assert [(call.name, call.arguments) for call in response.tool_calls or ()] == [("look", {"a": "``` }"})] * 2
    assert response.text == "I look."


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"port": 80}\n``` is the file.',
        '```json\n{"name": "other", "arguments": {}}\n```',
        '```json\n{"name": "look"}\n```',
        "```json\n[1, 2]\n```",
        "```json\n" + '{"a": "' + "x" * 2000,
        '```python\nprint("```json")\n```',
        '```json\n{"name": "lo',
        "```js",
        "ends with ```json",
    ],
)
async def test_other_fences_are_text(text: str, size: int) -> None:
    """JSON that is not a call of an offered tool is shown as it was written."""
    response = await read([text[at : at + size] for at in range(0, len(text), size)])
    assert response.text == text
    assert not response.tool_calls


@given(
    st.text(alphabet=st.sampled_from('`json\n{"name: lok,} '), max_size=40), st.lists(st.integers(1, 9), max_size=40)
)
async def test_texts_with_fences_are_whole(text: str, cuts: list[int]) -> None:
    """Whatever looks like the beginning of a fence comes out as it went in, in pieces of any size."""
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(text[at : at + cut])
        at += cut
    response = await read([*pieces, text[at:]])
    assert (response.text or "") == text


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
