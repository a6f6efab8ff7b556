"""What is Gemini's alone: its signatures, its own tools, its limits, and what its SDK must be kept from."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from amplifier_core import ToolSpec
from amplifier_core.llm_errors import (
    ContentFilterError,
    InvalidRequestError,
    LLMTimeoutError,
    QuotaExceededError,
    RateLimitError,
    StreamError,
)
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_core.testing import MockCoordinator
from amplifier_kit.llm.structured_output import ANSWER_TOOL
from amplifier_module_provider_gemini import GeminiProvider
from amplifier_testing.llm import GeminiWire, ModelServer, Reply, Said, sse
from amplifier_testing.llm.rig import KEY, Rig, ask

WIRE = GeminiWire()
MakeRig = Callable[..., Awaitable[Rig]]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.fixture
async def rig() -> AsyncIterator[MakeRig]:
    """Give `rig(*replies, **config)`."""
    made: list[Rig] = []
    with ModelServer() as server:

        async def build(*replies: Any, **config: Any) -> Rig:
            server.answers(*[WIRE.reply(item) if isinstance(item, Said) else item for item in replies])
            coordinator: MockCoordinator = MockCoordinator()
            quick = {"min_retry_delay": 0, "max_retries": 1, "base_url": server.url, "circuit_breaker_threshold": 0}
            made.append(Rig(GeminiProvider({**quick, **config}, coordinator, api_key=KEY), server, coordinator))
            return made[-1]

        yield build
        for one in made:
            await one.provider.close()


def _streamed(*parts: dict[str, Any], **ended: Any) -> Reply:
    content = {"role": "model", "parts": list(parts)}
    return Reply.stream([sse({"candidates": [{"content": content, "finishReason": "STOP", **ended}]})])


def _stored(response: Any) -> dict[str, Any]:
    calls = [{"id": call.id, "tool": call.name, "arguments": call.arguments} for call in response.tool_calls or ()]
    blocks = [block.model_dump() for block in response.content]
    return {"role": "assistant", "content": blocks, "tool_calls": calls, "metadata": response.metadata}


async def test_ids_are_made(rig: MakeRig) -> None:
    """Calls that have no id get different ones, which their results carry."""
    call = {"functionCall": {"name": "look", "args": {}}}
    one = await rig(_streamed(call, call), Said())
    response = await one.provider.complete(ask(tools=("look",)))
    ids = [made.id for made in response.tool_calls or ()]
    assert len(set(ids)) == 2
    results = [{"role": "tool", "tool_call_id": call_id, "content": "r"} for call_id in ids]
    await one.provider.complete(ask("x", _stored(response), *results, tools=("look",)))
    sent = one.server.bodies[-1]["contents"]
    assert [part["functionCall"]["id"] for part in sent[1]["parts"]] == ids
    assert [part["functionResponse"]["id"] for part in sent[2]["parts"]] == ids


async def test_signatures_of_text(rig: MakeRig) -> None:
    """The signature of a text is kept, though it comes with an empty piece, and goes back on the text."""
    one = await rig(_streamed({"text": "Hello"}, {"text": "", "thoughtSignature": "_-8="}), Said())
    response = await one.provider.complete(ask())
    assert response.text == "Hello"
    assert one.streamed() == [("text", "Hello")]
    await one.provider.complete(ask("x", _stored(response), "y"))
    assert one.server.bodies[-1]["contents"][1]["parts"] == [{"text": "Hello", "thoughtSignature": "_-8="}]


async def test_thinking_final(rig: MakeRig) -> None:
    """The whole thinking is told once, at its end; without thinking nothing is."""
    one = await rig(Said(("Hi",), ("Let me", " see.")), Said())
    response = await one.provider.complete(ask(), extended_thinking=True)
    assert one.event("thinking:final") == {"text": "Let me see."}
    assert one.names.index("thinking:final") < one.names.index("llm:response")
    assert [block.type for block in response.content] == ["thinking", "text"]
    await one.provider.complete(ask())
    assert len(one.events("thinking:final")) == 1


async def test_its_own_tools(rig: MakeRig) -> None:
    """What Google's tools did is kept as it came and goes back as it came; where it was found is told."""
    code = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    ran = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}
    grounding = {"webSearchQueries": ["one"]}
    parts: list[dict[str, Any]] = [{"text": "It"}, {"text": " is:"}, code, ran, {"text": "1"}]
    one = await rig(_streamed(*parts, groundingMetadata=grounding), Said())
    request = ask()
    request.tools = [ToolSpec.model_validate({"name": "code", "parameters": {}, "type": "code_execution"})]
    response = await one.provider.complete(request)
    assert one.server.bodies[-1]["tools"] == [{"codeExecution": {}}]
    assert response.text == "It is:1"
    assert (response.metadata or {})["gemini:grounding"] == grounding
    await one.provider.complete(ask("x", _stored(response), "y"))
    assert one.server.bodies[-1]["contents"][1]["parts"] == [{"text": "It is:"}, code, ran, {"text": "1"}]


async def test_a_tool_that_google_does_not_have(rig: MakeRig) -> None:
    """A native tool that the SDK does not know is an error of the request, before anything is sent."""
    one = await rig(Said())
    request = ask()
    request.tools = [ToolSpec.model_validate({"name": "x", "parameters": {}, "type": "teleport"})]
    with pytest.raises(InvalidRequestError, match="teleport"):
        await one.provider.complete(request)
    assert one.server.requests == []


async def test_usage(rig: MakeRig) -> None:
    """Thoughts are output, the cached part of the prompt is counted apart, and both have their price."""
    usage = {
        "promptTokenCount": 1000,
        "cachedContentTokenCount": 400,
        "toolUsePromptTokenCount": 10,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 30,
    }
    event = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"}
    one = await rig(Reply.stream([sse(event)]))
    counted = (await one.provider.complete(ask())).usage
    assert counted is not None
    assert (counted.input_tokens, counted.output_tokens, counted.reasoning_tokens) == (1010, 50, 30)
    assert counted.cache_read_tokens == 400
    # 610 at 0.30, 400 at 0.03 and 50 at 2.50 dollars a million.
    assert str(counted.cost_usd) == "0.000320"


async def test_a_blocked_prompt(rig: MakeRig) -> None:
    """A prompt that is blocked is an error that says why."""
    one = await rig(Reply.stream([sse({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})]))
    with pytest.raises(ContentFilterError, match="PROHIBITED_CONTENT"):
        await one.provider.complete(ask())


async def test_broken_off(rig: MakeRig) -> None:
    """An answer that the service breaks off for no reason is tried again."""
    one = await rig(_streamed({"text": "He"}, finishReason="OTHER"), Said())
    assert (await one.provider.complete(ask())).text == "Hello world"
    assert one.event("provider:retry")["error_type"] == StreamError.__name__


def _exhausted(quota: str, delay: str = "0.02s") -> Reply:
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    ]
    message = "You exceeded your current quota, please check your plan and billing details.\n* more"
    return Reply.error(
        429, {"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}}
    )


async def test_a_limit_per_minute(rig: MakeRig) -> None:
    """A limit per minute is waited for as the service says in its own way, though it speaks of a quota."""
    one = await rig(_exhausted("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"), Said())
    assert (await one.provider.complete(ask())).text == "Hello world"
    retry = one.event("provider:retry")
    assert (retry["error_type"], retry["retry_after"]) == ("RateLimitError", 0.02)
    late = await rig(_exhausted("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "3600s"))
    late.server.clear()
    late.server.answers(_exhausted("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "3600s"))
    with pytest.raises(RateLimitError) as caught:
        await late.provider.complete(ask())
    assert type(caught.value) is RateLimitError
    assert len(late.server.requests) == 1


async def test_a_daily_quota(rig: MakeRig) -> None:
    """A daily quota is not waited for."""
    one = await rig(_exhausted("GenerateRequestsPerDayPerProjectPerModel-FreeTier"))
    with pytest.raises(QuotaExceededError):
        await one.provider.complete(ask())
    assert len(one.server.requests) == 1


async def test_the_service_is_given_no_deadline(rig: MakeRig) -> None:
    """The SDK's own timeout would tell the service to give up; ours holds without it, also for lists of models."""
    one = await rig(Said())
    await one.provider.complete(ask())
    assert "x-server-timeout" not in one.server.requests[-1].headers
    stuck = await rig(stream_idle_timeout=0.2)
    stuck.server.clear()
    stuck.server.answers(Reply.hang())
    with pytest.raises(LLMTimeoutError):
        await stuck.provider.list_models()


async def test_the_environment_changes_nothing(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither Vertex, nor another version, nor a proxy for a service on this machine."""
    for name, value in {
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_CLOUD_PROJECT": "p",
        "GOOGLE_GENAI_API_VERSION": "v9",
        "GOOGLE_API_KEY": "another",
        "HTTP_PROXY": "http://127.0.0.1:1",
        "ALL_PROXY": "socks5://127.0.0.1:1",
    }.items():
        monkeypatch.setenv(name, value)
    one = await rig(Said())
    await one.provider.complete(ask())
    heard = one.server.requests[-1]
    assert heard.path == "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    assert heard.headers["x-goog-api-key"] == KEY


async def test_schemas(rig: MakeRig) -> None:
    """Models before Gemini 3 take no schema together with tools, and get a tool for the answer."""
    wanted = ResponseFormatJsonSchema(json_schema=SCHEMA)
    old = await rig(Said((), calls=(("c", ANSWER_TOOL, {"a": 1}),)))
    response = await old.provider.complete(ask(tools=("look",), response_format=wanted))
    assert json.loads(response.text or "") == {"a": 1}
    body = old.server.bodies[-1]
    assert body["toolConfig"]["functionCallingConfig"]["mode"] == "ANY"
    assert "responseMimeType" not in body["generationConfig"]
    new = await rig(Said(('{"a": 1}',)))
    await new.provider.complete(ask(tools=("look",), response_format=wanted, model="gemini-3-flash"))
    assert new.server.bodies[-1]["generationConfig"]["responseJsonSchema"] == SCHEMA


async def test_models(rig: MakeRig) -> None:
    """Only models that can be talked to are listed, with the service's own limits, over all pages."""
    talks, embeds = {"supportedGenerationMethods": ["generateContent"]}, {"supportedGenerationMethods": ["embed"]}
    first = {"models": [{"name": "models/a", "inputTokenLimit": 5, **talks}, {"name": "models/b", **embeds}]}
    one = await rig(
        Reply.json({**first, "nextPageToken": "more"}), Reply.json({"models": [{"name": "models/gemini-2.5-pro"}]})
    )
    listed = await one.provider.list_models()
    assert [(model.id, model.context_window) for model in listed] == [("a", 5), ("gemini-2.5-pro", 1_048_576)]


async def test_the_key_is_named(monkeypatch: pytest.MonkeyPatch, rig: MakeRig) -> None:
    """A refused key is named by the variable that it came from."""
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    one = await rig(WIRE.refusal(400, "", "API key not valid. Please pass a valid API key."))
    with pytest.raises(Exception, match="Check the key in GEMINI_API_KEY"):
        await one.provider.complete(ask())
