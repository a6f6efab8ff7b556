"""What a provider answered is read whatever shape it has."""

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core.message_models import ChatResponse, TextBlock, ThinkingBlock, ToolCall, ToolCallBlock, Usage
from amplifier_kit.engine.loop.reply import Call, checked_usage, read_reply
from amplifier_kit.engine.usage import InvalidUsageError
from amplifier_testing.loop.fakes import ScriptedProvider, call, say

PROVIDER = ScriptedProvider()


async def test_text_and_calls() -> None:
    """An answer has text, a message to keep and its calls in order."""
    reply = await read_reply(PROVIDER, call(("1", "grep", {"q": "x"}), ("2", "ls", {}), text="let me see"), ())
    assert reply.text == "let me see"
    assert reply.calls == [Call("1", "grep", {"q": "x"}), Call("2", "ls", {})]
    assert reply.message is not None
    assert reply.message["tool_calls"] == [
        {"id": "1", "tool": "grep", "arguments": {"q": "x"}},
        {"id": "2", "tool": "ls", "arguments": {}},
    ]
    assert [block["type"] for block in reply.message["content"]] == ["text", "tool_call", "tool_call"]


async def test_an_answer_that_says_nothing_is_not_kept() -> None:
    """An empty assistant message would be refused by services for ever after."""
    assert (await read_reply(PROVIDER, ChatResponse(content=[]), ())).message is None


async def test_metadata_is_kept() -> None:
    """What a provider wants to see again stays with the message."""
    reply = await read_reply(PROVIDER, say("x", metadata={"id": "r1"}), ())
    assert reply.message is not None
    assert reply.message["metadata"] == {"id": "r1"}


async def test_thinking_is_kept_when_asked() -> None:
    """The first thinking block is stored separately for loops that want that."""
    response = ChatResponse(content=[ThinkingBlock(thinking="hm", signature="s"), TextBlock(text="x")])
    plain, keeping = [
        (await read_reply(PROVIDER, response, (), keep_thinking=keep)).message or {} for keep in (False, True)
    ]
    assert "thinking_block" not in plain
    assert keeping["thinking_block"]["signature"] == "s"


@pytest.mark.parametrize(
    ("arguments", "read", "problem"),
    [
        (None, {}, None),
        ("", {}, None),
        ({}, {}, None),
        ('{"a": 1}', {"a": 1}, None),
        ("{", {}, "not valid JSON"),
        ("[1]", {}, "must be an object, got list"),
        (7, {}, "must be an object, got int"),
    ],
)
async def test_arguments_of_every_shape(arguments: Any, read: Any, problem: str | None) -> None:
    """Arguments may be absent, text or an object; anything else is a problem reported to the model."""
    provider = SimpleNamespace(parse_tool_calls=lambda _: [{"id": "1", "tool": "t", "arguments": arguments}])
    [made] = (await read_reply(provider, ChatResponse(content=[]), ())).calls
    assert made.arguments == read
    assert (problem or "") in (made.problem or "")
    assert (made.problem is None) == (problem is None)


async def test_a_call_that_only_a_block_speaks_of_is_known() -> None:
    """A call that the provider did not parse still needs a result."""
    response = ChatResponse(content=[ToolCallBlock(id="x", name="ghost", input={})])
    [made] = (await read_reply(PROVIDER, response, ())).calls
    assert (made.id, made.name) == ("x", "ghost")
    assert made.problem is not None


async def test_ids_are_made_to_differ() -> None:
    """Ids that are empty, taken or used twice are replaced, in the message and in the calls."""
    response = ChatResponse(
        content=[], tool_calls=[ToolCall(id=i, name="t", arguments={}) for i in ("a", "a", "", "b")]
    )
    reply = await read_reply(PROVIDER, response, {"b"})
    ids = [made.id for made in reply.calls]
    assert ids == ["a", "a_2", "call", "b_2"]
    assert reply.message is not None
    assert [entry["id"] for entry in reply.message["tool_calls"]] == ids


@pytest.mark.parametrize("response", ["plain", SimpleNamespace(content="plain"), SimpleNamespace(text="plain")])
async def test_plain_answers(response: Any) -> None:
    """Old and simple providers answer with text."""
    reply = await read_reply(SimpleNamespace(), response, ())
    assert reply.text == "plain"
    assert reply.message == {"role": "assistant", "content": "plain"}


def test_usage_is_a_dict() -> None:
    """Usage reaches hooks as data, whatever object it was."""
    assert (checked_usage(call(), "p") or {})["total_tokens"] == 2
    assert checked_usage(SimpleNamespace(usage={"input_tokens": 1}), "p") == {"input_tokens": 1}
    assert checked_usage(SimpleNamespace(), "p") is None


NONSENSE = ["12", "many", True, -1, 1.5, float("nan"), float("inf"), 10**30, [], {}]


@pytest.mark.parametrize("value", [*NONSENSE, None])
@pytest.mark.parametrize("field", ["input_tokens", "output_tokens", "total_tokens"])
def test_a_count_that_is_none_is_an_error_of_the_provider(field: str, value: Any) -> None:
    """Whatever object a module answers with, the error has a code and names provider, field and value."""
    counts = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, field: value}
    for usage in (counts, SimpleNamespace(**counts), Usage.model_construct(None, **counts)):
        with pytest.raises(InvalidUsageError) as raised:
            checked_usage(SimpleNamespace(usage=usage), "hosted")
        error = raised.value
        assert (error.code, error.provider, error.field, error.retryable) == ("provider.usage", "hosted", field, False)
        assert repr(value)[:20] in str(error)


@pytest.mark.parametrize("value", ["x", "nan", True, -1, float("inf"), 10**30, []])
def test_a_price_that_is_none_is_an_error_of_the_provider(value: Any) -> None:
    """Money is a number as well; a price that is not known is left out."""
    with pytest.raises(InvalidUsageError, match="cost_usd"):
        checked_usage(SimpleNamespace(usage={"input_tokens": 1, "cost_usd": value}), "hosted")
    assert checked_usage(SimpleNamespace(usage={"input_tokens": 1.0, "cost_usd": None}), "hosted")


@pytest.mark.parametrize("usage", ["much", 3, [1], True])
def test_usage_that_is_none_is_an_error_of_the_provider(usage: Any) -> None:
    """A plain value says nothing of tokens; an object of other names is one that is not known."""
    with pytest.raises(InvalidUsageError, match="usage"):
        checked_usage(SimpleNamespace(usage=usage), "hosted")
    assert checked_usage(SimpleNamespace(usage=SimpleNamespace(prompt_tokens="?")), "hosted") is None
