"""What servers do in their own ways: thinking, whole answers, forms that they refuse, slow starts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from amplifier_core.llm_errors import (
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    LLMError,
    ProviderUnavailableError,
    StreamError,
)
from amplifier_core.message_models import ResponseFormatJson, ResponseFormatJsonSchema
from amplifier_core.testing import MockCoordinator
from amplifier_kit.llm.errors import WarmingUpError
from amplifier_kit.llm.structured_output import ANSWER_TOOL
from amplifier_module_provider_chat_completions import ChatCompletionsProvider
from amplifier_testing.llm import ChatWire, ModelServer, Reply, Said, sse
from amplifier_testing.llm.rig import KEY, Rig, ask

WIRE = ChatWire()
DONE = sse("[DONE]")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
MakeRig = Callable[..., Awaitable[Rig]]


@pytest.fixture
async def rig() -> AsyncIterator[MakeRig]:
    """Give `rig(*replies, **config)`."""
    made: list[Rig] = []
    with ModelServer() as server:

        async def build(*replies: Any, **config: Any) -> Rig:
            server.answers(*[WIRE.either(item) if isinstance(item, Said) else item for item in replies])
            coordinator: MockCoordinator = MockCoordinator()
            quick = {"min_retry_delay": 0, "max_retries": 2, **config}
            provider = ChatCompletionsProvider(quick, coordinator, base_url=f"{server.url}/n{len(made)}", api_key=KEY)
            made.append(Rig(provider, server, coordinator))
            return made[-1]

        yield build
        for one in made:
            await one.provider.close()


def _form(schema: dict[str, Any] = SCHEMA, **fields: Any) -> Any:
    return ask("How many?", response_format=ResponseFormatJsonSchema(json_schema=schema), **fields)


# -- thinking --


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thinking_in_a_field(rig: MakeRig, field: str) -> None:
    """Thinking is read from the field of the server's choice and goes back in the same."""
    chunks = [WIRE.chunk({"role": "assistant", field: "Hm"}), WIRE.chunk({field: "."}), WIRE.chunk({"content": "Yes"})]
    one = await rig(Reply.stream([*chunks, WIRE.chunk({}, "stop"), DONE]))
    response = await one.provider.complete(ask("x"))
    assert one.streamed() == [("thinking", "Hm."), ("text", "Yes")]
    blocks = [block.model_dump() for block in response.content]
    await one.provider.complete(ask("x", {"role": "assistant", "content": blocks, "metadata": response.metadata}, "y"))
    assert one.server.bodies[-1]["messages"][1] == {"role": "assistant", "content": "Yes", field: "Hm."}


async def test_thinking_in_the_text(rig: MakeRig) -> None:
    """Thinking that the server left in the text is taken out of it, unless that is turned off."""
    text = Said(("<thi", "nk>Hm", ".</think>", "\n\n", "Yes"))
    one = await rig(text)
    assert (await one.provider.complete(ask())).text == "Yes"
    assert one.streamed() == [("thinking", "Hm."), ("text", "Yes")]
    off = await rig(text, think_tags=False)
    assert (await off.provider.complete(ask())).text == "<think>Hm.</think>\n\nYes"


async def test_thinking_in_parts(rig: MakeRig) -> None:
    """Content in parts, and details without plain text, are understood."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    detail = [{"type": "reasoning.summary", "summary": "So."}]
    chunks = [
        WIRE.chunk({"content": [thought, {"type": "text", "text": "Yes"}]}),
        WIRE.chunk({"reasoning_details": detail}),
    ]
    one = await rig(Reply.stream([*chunks, WIRE.chunk({}, "stop"), DONE]))
    await one.provider.complete(ask())
    assert one.streamed() == [("thinking", "Hm."), ("text", "Yes"), ("thinking", "So.")]


# -- answers --


@pytest.mark.parametrize("config", [{"use_streaming": False}, {}])
async def test_whole_answers(rig: MakeRig, config: dict[str, Any]) -> None:
    """An answer in one piece, asked for or not, is the same answer."""
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = (("c1", "look", {"where": "here"}), ("c2", "look", {}))
    one = await rig(WIRE.whole(Said(("I look.",), ("Hm.",), calls=calls, cache_read=7)), **config)
    response = await one.provider.complete(ask(tools=("look",)))
    assert [block.type for block in response.content] == ["thinking", "text", "tool_call", "tool_call"]
    assert [(call.id, call.arguments) for call in response.tool_calls or ()] == [("c1", {"where": "here"}), ("c2", {})]
    assert response.finish_reason == "tool_use"
    assert response.usage is not None
    assert response.usage.cache_read_tokens == 7
    assert bool(one.server.bodies[-1].get("stream")) is not bool(config)


async def test_an_error_in_place_of_an_answer(rig: MakeRig) -> None:
    """An error that comes with a good status is an error all the same."""
    overflow = {"error": {"message": "too long", "type": "exceed_context_size_error", "code": 400}}
    one = await rig(Reply.json(overflow))
    with pytest.raises(ContextLengthError):
        await one.provider.complete(ask())
    one = await rig(Reply.json({"error": "Model unloaded."}), use_streaming=False, max_retries=0)
    with pytest.raises(LLMError, match="Model unloaded"):
        await one.provider.complete(ask())
    failing = {"index": 0, "delta": {}, "finish_reason": "error", "error": {"message": "upstream", "code": 502}}
    broken = Reply.stream([WIRE.chunk({"content": "Hel"}), sse({"id": "x", "choices": [failing]})])
    one = await rig(broken, max_retries=0)
    with pytest.raises(ProviderUnavailableError, match="upstream"):
        await one.provider.complete(ask())


async def test_an_answer_that_was_given_up(rig: MakeRig) -> None:
    """A server that gives up in the middle did not answer."""
    one = await rig(Reply.stream([WIRE.chunk({"content": "Hel"}), WIRE.chunk({}, "abort"), DONE]), Said())
    assert (await one.provider.complete(ask())).text == "Hello world"
    assert one.event("provider:retry")["error_type"] == StreamError.__name__


async def test_a_refusal_in_words(rig: MakeRig) -> None:
    """A refusal is an error that says why."""
    one = await rig(Reply.stream([WIRE.chunk({"refusal": "I will "}), WIRE.chunk({"refusal": "not."}, "stop"), DONE]))
    with pytest.raises(ContentFilterError, match=r"I will not\."):
        await one.provider.complete(ask())


async def test_the_old_way_to_call(rig: MakeRig) -> None:
    """A call from before there were several is a call."""
    chunks = [
        WIRE.chunk({"function_call": {"name": "look", "arguments": '{"a"'}}),
        WIRE.chunk({"function_call": {"arguments": ": 1}"}}, "function_call"),
    ]
    response = await (await rig(Reply.stream([*chunks, DONE]))).provider.complete(ask(tools=("look",)))
    assert [(call.name, call.arguments) for call in response.tool_calls or ()] == [("look", {"a": 1})]
    assert response.finish_reason == "tool_use"


async def test_calls_that_end_with_stop(rig: MakeRig) -> None:
    """Calls are calls whatever reason the server gives, also whole ones without index or id, between texts."""
    entry = {"type": "function", "function": {"name": "look", "arguments": "{}"}}
    chunks = [WIRE.chunk({"content": "A"}), WIRE.chunk({"tool_calls": [entry, entry]}), WIRE.chunk({"content": "B"})]
    one = await rig(Reply.stream([*chunks, WIRE.chunk({}, "stop"), DONE]))
    response = await one.provider.complete(ask(tools=("look",)))
    assert response.finish_reason == "tool_use"
    assert [block.type for block in response.content] == ["text", "tool_call", "tool_call", "text"]
    assert len({call.id for call in response.tool_calls or ()}) == 2


async def test_chunks_that_lack_something(rig: MakeRig) -> None:
    """Chunks without choices, without a delta, without names and ids, or with fields nobody knows do no harm."""
    chunks: list[dict[str, Any]] = [
        {"object": "ping"},
        {"choices": None},
        {"choices": [{"index": 0}]},
        {"choices": [{"delta": {"content": "Hi", "reasoning_details": "odd", "audio_url": 3}}]},
        {"choices": [{"delta": None, "finish_reason": "eos"}]},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": None}},
    ]
    one = await rig(Reply.stream([*map(sse, chunks), DONE]))
    response = await one.provider.complete(ask())
    assert (response.text, response.finish_reason) == ("Hi", "stop")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 0)


async def test_no_usage(rig: MakeRig) -> None:
    """A server that counts nothing is not asked to, and its answers have no usage."""
    one = await rig(Reply.stream([WIRE.chunk({"content": "Hi"}, "stop"), DONE]), include_usage=False)
    assert (await one.provider.complete(ask())).usage is None
    assert "stream_options" not in one.server.bodies[-1]
    assert (await rig(Said())).provider.settings.include_usage  # type: ignore[attr-defined]


async def test_free(rig: MakeRig) -> None:
    """A model of one's own costs nothing when one says so."""
    one = await rig(Said(), free=True)
    response = await one.provider.complete(ask())
    assert response.usage is not None
    assert response.usage.cost_usd == Decimal(0)
    assert one.provider.ledger.contribution() == {"cost_usd": "0"}


async def test_own_headers_are_secret(rig: MakeRig) -> None:
    """Headers of one's own are sent, and what they hold is in no event and no error."""
    one = await rig(
        WIRE.refusal(403, "denied", "no entry for token-of-my-gateway"),
        extra_headers={"X-Gateway": "token-of-my-gateway"},
        raw=True,
    )
    with pytest.raises(LLMError) as caught:
        await one.provider.complete(ask())
    assert one.server.requests[-1].headers["x-gateway"] == "token-of-my-gateway"
    assert "token-of-my-gateway" not in f"{caught.value} {json.dumps(one.heard)}"


# -- forms --


async def test_a_schema_is_given(rig: MakeRig) -> None:
    """The schema goes to the server as it is."""
    one = await rig(Said(('{"n": 1}',)))
    assert (await one.provider.complete(_form())).text == '{"n": 1}'
    assert one.server.bodies[-1]["response_format"]["json_schema"]["schema"] == SCHEMA


async def test_next_to_tools_a_tool_for_the_answer(rig: MakeRig) -> None:
    """A schema would keep the model from calling tools: with tools, the answer is a call too."""
    one = await rig(Said((), calls=(("c", ANSWER_TOOL, {"n": 1}),)))
    assert (await one.provider.complete(_form(tools=("look",)))).text == '{"n": 1}'
    body = one.server.bodies[-1]
    assert "response_format" not in body
    assert (body["tool_choice"], len(body["tools"])) == ("required", 2)


async def test_forms_that_are_refused(rig: MakeRig) -> None:
    """A server that takes no schema is asked for JSON, one that takes neither in words, and it is remembered."""
    refusal = WIRE.refusal(400, "invalid_request_error", "'response_format.type' must be 'text'")
    one = await rig(refusal, refusal, Said(('{"n": 1}',)))
    assert (await one.provider.complete(_form())).text == '{"n": 1}'
    assert (await one.provider.complete(_form())).text == '{"n": 1}'
    kinds = [body.get("response_format", {}).get("type") for body in one.server.bodies]
    assert kinds == ["json_schema", "json_object", None, None]
    assert "fits this JSON schema" in one.server.bodies[1]["messages"][-1]["content"]


async def test_any_json(rig: MakeRig) -> None:
    """Any JSON is asked for as such; where that is refused, in words."""
    one = await rig(Said(('{"a": 1}',)))
    await one.provider.complete(ask(response_format=ResponseFormatJson()))
    assert one.server.bodies[-1]["response_format"] == {"type": "json_object"}
    refusal = WIRE.refusal(400, "invalid_request_error", "response_format must be json_schema or text")
    one = await rig(refusal, refusal, Said(('{"a": 1}',)))
    await one.provider.complete(ask(response_format=ResponseFormatJson()))
    assert "response_format" not in one.server.bodies[-1]


@pytest.mark.parametrize(
    ("way", "kind", "tools"),
    [("json_schema", "json_schema", 0), ("json_object", "json_object", 0), ("prompt", None, 0), ("tool", None, 1)],
)
async def test_the_way_can_be_chosen(rig: MakeRig, way: str, kind: str | None, tools: int) -> None:
    """`structured_output` names one way, and no other is tried."""
    answer = Said((), calls=(("c", ANSWER_TOOL, {"n": 1}),)) if tools else Said(('{"n": 1}',))
    one = await rig(answer, WIRE.refusal(400, "x", "no response_format, no grammar"), structured_output=way)
    assert (await one.provider.complete(_form())).text == '{"n": 1}'
    body = one.server.bodies[-1]
    assert (body.get("response_format", {}).get("type"), len(body.get("tools", ()))) == (kind, tools)
    with pytest.raises(InvalidRequestError):
        await one.provider.complete(_form())
    assert len(one.server.requests) == 2


async def test_other_refusals_are_errors(rig: MakeRig) -> None:
    """A request that is refused for another reason is not asked again in another form."""
    one = await rig(WIRE.refusal(400, "invalid_request_error", "temperature is too high"))
    with pytest.raises(InvalidRequestError):
        await one.provider.complete(_form())
    assert len(one.server.requests) == 1


# -- starting --


async def test_a_server_that_is_starting(rig: MakeRig) -> None:
    """A server that loads its model is waited for, longer than for other errors."""
    loading = WIRE.refusal(503, "unavailable_error", "Loading model")
    one = await rig(*[loading] * 6, Said(), max_retries=1)
    assert (await one.provider.complete(ask())).text == "Hello world"
    retries = one.events("provider:retry")
    assert [(told["error_type"], told["max_retries"]) for told in retries] == [("WarmingUpError", 10)] * 6


async def test_a_server_that_never_starts(rig: MakeRig) -> None:
    """There is an end to it."""
    one = await rig(Reply.page(404, "The service is starting up"), warmup_retries=3)
    with pytest.raises(WarmingUpError, match="still starting"):
        await one.provider.complete(ask())
    assert len(one.server.requests) == 4


# -- models --


async def test_models_that_do_not_chat(rig: MakeRig) -> None:
    """Models that make no answers are left out of the list, unless all are wanted; what is told of them is kept."""
    names = ("qwen3", "text-embedding-nomic", "bge-reranker")
    one = await rig(WIRE.models(*names, max_model_len=9000), default_model="qwen3")
    assert one.provider.get_model_info().context_window == 32_768
    assert [model.id for model in await one.provider.list_models()] == ["qwen3"]
    assert one.provider.get_model_info().context_window == 9000
    every = await rig(WIRE.models(*names), filtered=False)
    assert len(await every.provider.list_models()) == 3
