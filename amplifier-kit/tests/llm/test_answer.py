"""How an answer comes together."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.llm_errors import ContentFilterError, InvalidToolCallError, StreamError
from amplifier_core.testing import EventRecorder
from amplifier_kit.engine.stream_events import StreamEmitter
from amplifier_kit.llm.response import Answer


@pytest.fixture
def heard() -> EventRecorder:
    """Return what keeps the events."""
    return EventRecorder()


@pytest.fixture
def answer(heard: EventRecorder) -> Answer:
    """Return an answer whose events are kept."""
    return Answer(StreamEmitter(heard, "r1"), "here")


def _shown(heard: EventRecorder) -> list[tuple[Any, ...]]:
    return [
        (event.rpartition("_")[2], data.get("block_index"), data.get("block_type"), data.get("text"))
        for event, data in heard.events
    ]


async def test_blocks(answer: Answer, heard: EventRecorder) -> None:
    """Blocks may overlap and are numbered as they are announced; an empty one is neither announced nor kept."""
    await answer.start("empty", "text")
    await answer.start("t", "thinking")
    await answer.add("t", "hm")
    answer.sign("t", "si")
    answer.sign("t", "gn")
    await answer.start("c", "tool_use", id="1", name="look")
    await answer.add("c", '{"a":')
    await answer.end("t")
    await answer.add("c", " 1}")
    await answer.add("c", "")
    await answer.end("empty")
    await answer.finish("tool_use")
    assert _shown(heard) == [
        ("start", 0, "thinking", None),
        ("delta", 0, "thinking", "hm"),
        ("start", 1, "tool_use", None),
        ("delta", 1, "tool_use", '{"a":'),
        ("end", 0, "thinking", None),
        ("delta", 1, "tool_use", " 1}"),
        ("end", 1, "tool_use", None),
    ]
    response = answer.response()
    assert [block.model_dump(exclude_none=True) for block in response.content] == [
        {"type": "thinking", "thinking": "hm", "signature": "sign", "origin": "here"},
        {"type": "tool_call", "id": "1", "name": "look", "input": {"a": 1}},
    ]
    assert [call.model_dump() for call in response.tool_calls or ()] == [
        {"id": "1", "name": "look", "arguments": {"a": 1}}
    ]
    assert response.text is None
    assert [block.to_dict()["type"] for block in response.content_blocks or ()] == ["thinking", "tool_call"]


async def test_saying(answer: Answer, heard: EventRecorder) -> None:
    """For services without blocks, a block lasts until another kind begins."""
    for kind, piece in (("thinking", "a"), ("thinking", "b"), ("text", ""), ("text", "c"), ("text", "d")):
        await answer.say(kind, piece)  # type: ignore[arg-type]
    answer.sign_thinking("sig")
    await answer.call("1", "look", {"a": 1}, {"x:y": 2})
    await answer.call("2", "look", "{}")
    await answer.say("text", "e")
    await answer.finish("tool_use")
    response = answer.response()
    assert [block.type for block in response.content] == ["thinking", "text", "tool_call", "tool_call", "text"]
    assert response.text == "cde"
    assert response.content[0].model_dump()["signature"] == "sig"
    assert response.content[2].model_dump()["x:y"] == 2
    starts = [shown for shown in _shown(heard) if shown[0] == "start"]
    assert [shown[1:3] for shown in starts] == [
        (0, "thinking"),
        (1, "text"),
        (2, "tool_use"),
        (3, "tool_use"),
        (4, "text"),
    ]
    assert len([shown for shown in _shown(heard) if shown[0] == "end"]) == 5


async def test_a_signature_alone_is_kept(answer: Answer) -> None:
    """Hidden thinking is kept for its signature, and never shown."""
    answer.sign_thinking("sig", [{"id": "r"}])
    answer.redacted("secret")
    await answer.say("text", "x")
    await answer.finish("stop")
    response = answer.response()
    assert [block.model_dump(exclude_none=True) for block in response.content] == [
        {"type": "thinking", "thinking": "", "signature": "sig", "content": [{"id": "r"}], "origin": "here"},
        {"type": "redacted_thinking", "data": "secret", "origin": "here"},
        {"type": "text", "text": "x"},
    ]
    assert [block.to_dict()["type"] for block in response.content_blocks or ()] == ["text"]


async def test_unfinished(answer: Answer) -> None:
    """An answer whose end was never announced is no answer."""
    await answer.say("text", "half")
    assert not answer.is_finished
    with pytest.raises(StreamError, match="before it was complete"):
        answer.response()


async def test_refused(answer: Answer) -> None:
    """A refusal is an error with the service's reason."""
    answer.refusal = "not today"
    await answer.finish("content_filter")
    with pytest.raises(ContentFilterError, match="not today"):
        answer.response()


@pytest.mark.parametrize(("arguments", "fault"), [("{broken", "not valid JSON"), ("[1]", "must be an object")])
async def test_bad_arguments(answer: Answer, arguments: str, fault: str) -> None:
    """Arguments that are no object are worth another attempt, and the error holds them."""
    await answer.call("1", "look", arguments)
    await answer.finish("tool_use")
    with pytest.raises(InvalidToolCallError, match=fault) as caught:
        answer.response()
    assert (caught.value.tool_name, caught.value.raw_arguments, caught.value.retryable) == ("look", arguments, True)


async def test_arguments_cut_at_the_limit(answer: Answer) -> None:
    """A call that was cut off at the limit of tokens would be cut off again."""
    await answer.call("1", "look", '{"a": "long')
    await answer.finish("length")
    with pytest.raises(InvalidToolCallError, match="raise max_tokens") as caught:
        answer.response()
    assert not caught.value.retryable


async def test_abort(answer: Answer, heard: EventRecorder) -> None:
    """What was begun is called off once; what was never begun is not."""
    await Answer(StreamEmitter(heard), "here").abort(ValueError("x"))
    assert heard.events == []
    await answer.say("text", "half")
    await answer.abort(ValueError("x"))
    await answer.abort(ValueError("x"))
    [(_, data)] = heard.get_events("llm:stream_aborted")
    assert data == {"request_id": "r1", "error": {"type": "ValueError", "msg": "x"}}


async def test_responses_share_nothing(answer: Answer) -> None:
    """Changing the arguments of a call changes neither the message nor the blocks."""
    await answer.call("1", "look", {"a": [1]})
    await answer.finish("tool_use")
    response = answer.response()
    assert response.tool_calls is not None
    response.tool_calls[0].arguments["a"].append(2)
    assert response.content[0].model_dump()["input"] == {"a": [1]}
    assert (response.content_blocks or [])[0].arguments == {"a": [1]}
