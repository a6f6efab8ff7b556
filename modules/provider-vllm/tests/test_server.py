"""What is vLLM's alone: what it takes, its gateways, its models."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from amplifier_core.llm_errors import NotFoundError
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_core.testing import MockCoordinator
from amplifier_kit.llm.errors import WarmingUpError
from amplifier_kit.llm.structured_output import ANSWER_TOOL
from amplifier_module_provider_vllm import VLLMChatProvider, VLLMProvider
from amplifier_testing.llm import ChatWire, ModelServer, Reply, ResponsesWire, Said
from amplifier_testing.llm.rig import KEY, Rig, ask

WIRE = ResponsesWire()
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
MakeRig = Callable[..., Awaitable[Rig]]


@pytest.fixture
async def rig() -> AsyncIterator[MakeRig]:
    """Give `rig(*replies, **config)`; with `api="chat"` over chat completions."""
    made: list[Rig] = []
    with ModelServer() as server:

        async def build(*replies: Any, api: str = "responses", **config: Any) -> Rig:
            wire = ChatWire() if api == "chat" else WIRE
            server.answers(*[wire.reply(item) if isinstance(item, Said) else item for item in replies])
            coordinator: MockCoordinator = MockCoordinator()
            kind = VLLMChatProvider if api == "chat" else VLLMProvider
            quick = {"min_retry_delay": 0, "max_retries": 2, **config}
            provider = kind(quick, coordinator, base_url=f"{server.url}/n{len(made)}", api_key=KEY)
            made.append(Rig(provider, server, coordinator))
            return made[-1]

        yield build
        for one in made:
            await one.provider.close()


async def test_what_is_asked(rig: MakeRig) -> None:
    """The server is asked to keep nothing and to cut nothing, within its limits."""
    one = await rig(Said())
    await one.provider.complete(ask(("system", "Be kind."), "hi", tools=("look",), max_output_tokens=10**6))
    body = one.server.bodies[-1]
    assert (body["model"], body["store"], body["truncation"]) == ("openai/gpt-oss-20b", False, "disabled")
    assert (body["instructions"], body["max_output_tokens"]) == ("Be kind.", 32_768)
    assert "temperature" not in body
    assert one.server.requests[-1].path.endswith("/responses")


async def test_thinking_and_sampling_together(rig: MakeRig) -> None:
    """A model that thinks takes a temperature all the same, and as much thinking as is asked for."""
    one = await rig(Said(), reasoning="high", temperature=0.3)
    await one.provider.complete(ask(top_p=0.5))
    body = one.server.bodies[-1]
    assert (body["temperature"], body["top_p"], body["reasoning"]["effort"]) == (0.3, 0.5, "high")
    await one.provider.complete(ask(temperature=0.0, reasoning_effort="low"))
    body = one.server.bodies[-1]
    assert (body["temperature"], body["reasoning"]["effort"]) == (0.0, "low")


@pytest.mark.parametrize(("model", "roles"), [("openai/gpt-oss-20b", {"developer", "user"}), ("Qwen/Qwen3", {"user"})])
async def test_roles_that_a_template_knows(rig: MakeRig, model: str, roles: set[str]) -> None:
    """Late instructions and files keep their role only with models that know it; they stay in their place."""
    one = await rig(Said())
    await one.provider.complete(ask(("developer", "file"), "hi", ("system", "Hurry!"), model=model))
    items = one.server.bodies[-1]["input"]
    assert {item["role"] for item in items} == roles
    assert ["file" in json.dumps(items[0]), "Hurry!" in json.dumps(items[2])] == [True, True]
    assert ("<system-reminder>" in json.dumps(items[2])) is (roles == {"user"})


async def test_what_was_said_elsewhere(rig: MakeRig) -> None:
    """Another provider's history is taken: its words as plain text, its images behind the results."""
    one = await rig(Said())
    calls = [{"id": f"c{n}", "tool": "look", "arguments": {}} for n in (1, 2)]
    history: list[Any] = ["go", {"role": "assistant", "content": "I look.", "tool_calls": calls}]
    history += [{"role": "tool", "tool_call_id": f"c{n}", "name": "look", "content": [PIXEL]} for n in (1, 2)]
    await one.provider.complete(ask(*history, tools=("look",)))
    items = one.server.bodies[-1]["input"]
    assert [item["type"] for item in items] == [
        "message",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
    ]
    assert items[1] == {"type": "message", "role": "assistant", "content": "I look."}
    assert all(isinstance(item["output"], str) for item in items[4:6])
    shown = [part["type"] for part in items[6]["content"]]
    assert shown == ["input_text", "input_image", "input_text", "input_image"]


async def test_own_words_keep_their_form(rig: MakeRig) -> None:
    """What this server said goes back as it came, under its id, with the metadata under its own prefix."""
    one = await rig(Said(("Hello",)))
    response = await one.provider.complete(ask("x"))
    assert response.metadata is not None
    assert all(key.startswith("vllm:") for key in response.metadata)
    blocks = [block.model_dump() for block in response.content]
    await one.provider.complete(ask("x", {"role": "assistant", "content": blocks, "metadata": response.metadata}, "y"))
    said = one.server.bodies[-1]["input"][1]
    assert said["content"][0]["type"] == "output_text"
    assert said["id"]
    assert "previous_response_id" not in one.server.bodies[-1]


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize(
    "page",
    [
        Reply.page(404, "Your deployment is starting up, please wait"),
        Reply.error(425, {"detail": "model is warming up"}),
        Reply.error(503, {"error": {"message": "The model is loading", "type": "unavailable"}}),
    ],
)
async def test_gateways_that_warm_up(rig: MakeRig, api: str, page: Reply) -> None:
    """A gateway that says the server is starting is asked again, more often than for other errors."""
    one = await rig(*[page] * 5, Said(), api=api, max_retries=0)
    assert (await one.provider.complete(ask())).text == "Hello world"
    assert {told["error_type"] for told in one.events("provider:retry")} == {"WarmingUpError"}
    one.server.clear()
    given_up = await rig(page, api=api, max_retries=0, warmup_retries=2)
    with pytest.raises(WarmingUpError):
        await given_up.provider.complete(ask())
    assert len(one.server.requests) == 3


async def test_no_responses_api(rig: MakeRig) -> None:
    """A server without the Responses API is one line that says what to set; a missing model is another."""
    one = await rig(Reply.error(404, {"detail": "Not Found"}))
    with pytest.raises(NotFoundError, match="api: chat"):
        await one.provider.complete(ask())
    assert len(one.server.requests) == 1
    one.server.clear()
    one.server.answers(WIRE.refusal(404, "NotFoundError", "The model `x` does not exist."))
    with pytest.raises(NotFoundError, match="amplifier provider models"):
        await one.provider.complete(ask())


async def test_an_answer_at_its_limit(rig: MakeRig) -> None:
    """An answer at its limit of tokens is not gone on with."""
    one = await rig(Said(finish="length"))
    assert (await one.provider.complete(ask())).finish_reason == "length"
    assert len(one.server.requests) == 1


async def test_forms(rig: MakeRig) -> None:
    """A schema goes to the server; next to tools the answer is a call."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wanted = ResponseFormatJsonSchema(json_schema=schema)
    one = await rig(Said(('{"n": 1}',)), Said((), calls=(("c", ANSWER_TOOL, {"n": 2}),)))
    assert (await one.provider.complete(ask(response_format=wanted))).text == '{"n": 1}'
    assert one.server.bodies[-1]["text"]["format"]["type"] == "json_schema"
    assert (await one.provider.complete(ask(response_format=wanted, tools=("look",)))).text == '{"n": 2}'
    assert one.server.bodies[-1]["tool_choice"] == "required"


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_models(rig: MakeRig, api: str) -> None:
    """The server tells the window of its models; the config wins; without either there are defaults."""
    listed = ChatWire().models("openai/gpt-oss-20b", "my-embedding", max_model_len=40_000)
    one = await rig(listed, api=api)
    info = one.provider.get_model_info()
    assert (info.context_window, info.max_output_tokens) == (128_000, 32_768)
    assert [(m.id, m.context_window) for m in await one.provider.list_models()] == [("openai/gpt-oss-20b", 40_000)]
    assert one.provider.get_model_info().context_window == 40_000
    own = await rig(api=api, context_window=9000, max_output_tokens=500)
    info = own.provider.get_model_info()
    assert (info.context_window, info.max_output_tokens) == (9000, 500)


async def test_chat(rig: MakeRig) -> None:
    """Over chat completions the same effort is asked for, and the temperature is the server's."""
    one = await rig(Said(), api="chat", reasoning={"effort": "high"})
    await one.provider.complete(ask())
    body = one.server.bodies[-1]
    assert body["reasoning_effort"] == "high"
    assert "temperature" not in body
    assert one.server.requests[-1].path.endswith("/chat/completions")


@pytest.mark.parametrize(("origin", "is_sent"), [("vllm-chat", True), ("vllm", False), ("chat-completions", False)])
async def test_thinking_of_other_servers_stays_away(rig: MakeRig, origin: str, is_sent: bool) -> None:
    """Over chat completions the server gets back what it thought itself there, and nothing that another signed."""
    details = [{"type": "reasoning.encrypted", "data": "c2VjcmV0"}]
    thought = {"type": "thinking", "thinking": "hm", "content": details, "origin": origin}
    one = await rig(Said(), api="chat")
    await one.provider.complete(
        ask("x", {"role": "assistant", "content": [thought, {"type": "text", "text": "y"}]}, "z")
    )
    assert ("c2VjcmV0" in json.dumps(one.server.bodies[-1])) is is_sent


async def test_where_thinking_came_from(rig: MakeRig) -> None:
    """Each way of asking marks what was thought with a name of its own."""
    origins = []
    for api in ("chat", "responses"):
        one = await rig(Said((), ("Hm.",), calls=()), api=api)
        response = await one.provider.complete(ask(), extended_thinking=True)
        origins.append(response.content[0].model_dump()["origin"])
    assert origins == ["vllm-chat", "vllm"]
