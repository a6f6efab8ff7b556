"""What is Anthropic's alone: its own tools, its caches, refusals, overload, and pages in between."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from amplifier_core.llm_errors import ContentFilterError, ProviderUnavailableError
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_core.testing import MockCoordinator
from amplifier_kit.llm.structured_output import ANSWER_TOOL
from amplifier_module_provider_anthropic import AnthropicProvider
from amplifier_testing.llm import AnthropicWire, ModelServer, Reply, Said, sse
from amplifier_testing.llm.rig import KEY, Rig, ask

WIRE = AnthropicWire()
MakeRig = Callable[..., Awaitable[Rig]]


@pytest.fixture
async def rig() -> AsyncIterator[MakeRig]:
    """Give `rig(*replies, **config)`."""
    made: list[Rig] = []
    with ModelServer() as server:

        async def build(*replies: Any, **config: Any) -> Rig:
            server.answers(*[WIRE.reply(item) if isinstance(item, Said) else item for item in replies])
            coordinator: MockCoordinator = MockCoordinator()
            quick = {"min_retry_delay": 0, "overloaded_delay_multiplier": 1, "max_retries": 2, "base_url": server.url}
            provider = AnthropicProvider({**quick, **config}, coordinator, api_key=KEY)
            made.append(Rig(provider, server, coordinator))
            return made[-1]

        yield build
        for one in made:
            await one.provider.close()


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, kind)


def _searching(stop_reason: str) -> Reply:
    """Search the web, then say something with a citation."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
    found = [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "e", "page_age": None}]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        (
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            [{"type": "input_json_delta", "partial_json": '{"query": "x"}'}],
        ),
        ({"type": "web_search_tool_result", "tool_use_id": "s1", "content": found}, []),
        ({"type": "redacted_thinking", "data": "secret"}, []),
        (
            {"type": "text", "text": ""},
            [
                {"type": "text_delta", "text": "Found."},
                {
                    "type": "citations_delta",
                    "citation": {
                        "type": "web_search_result_location",
                        "url": "u",
                        "title": "t",
                        "cited_text": "c",
                        "encrypted_index": "i",
                    },
                },
            ],
        ),
    ]
    events = [_event("message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage})]
    for index, (block, deltas) in enumerate(blocks):
        events.append(_event("content_block_start", index=index, content_block=block))
        events += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
        events.append(_event("content_block_stop", index=index))
    used = {"output_tokens": 5, "server_tool_use": {"web_search_requests": 2}}
    events.append(_event("message_delta", delta={"stop_reason": stop_reason, "stop_sequence": None}, usage=used))
    return Reply.stream([*events, _event("message_stop")])


async def test_its_own_tools(rig: MakeRig) -> None:
    """A paused message is gone on with; its blocks are kept as they came and sent back as they came."""
    one = await rig(_searching("pause_turn"), Said((" More.",)), enable_web_search=True)
    response = await one.provider.complete(ask("x"))
    assert response.text == "Found. More."
    assert [block.type for block in response.content] == ["redacted_thinking", "text", "text"]
    assert response.content[1].model_dump()["citations"][0]["url"] == "u"
    assert one.streamed() == [("text", "Found."), ("text", " More.")]
    continued = one.server.bodies[1]["messages"]
    assert [block["type"] for block in continued[1]["content"]] == [
        "server_tool_use",
        "web_search_tool_result",
        "redacted_thinking",
        "text",
    ]
    assert continued[1]["content"][0]["input"] == {"query": "x"}
    usage = response.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (110, 25)
    stored = {"role": "assistant", "content": [b.model_dump() for b in response.content], "metadata": response.metadata}
    await one.provider.complete(ask("x", stored, "y"))
    sent = one.server.bodies[-1]["messages"][1]["content"]
    assert [block["type"] for block in sent][:2] == ["server_tool_use", "web_search_tool_result"]


async def test_caches(rig: MakeRig) -> None:
    """What was read from and written to the cache is counted apart."""
    one = await rig(Said(prompt_tokens=1000, cache_read=600, cache_write=300))
    usage = (await one.provider.complete(ask())).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (700, 600, 300)


async def test_rate_limits_are_reported(rig: MakeRig) -> None:
    """The limits of the response's headers are in the event."""
    headers = {"anthropic_ratelimit_requests_limit": "50", "anthropic_ratelimit_requests_remaining": "49"}
    one = await rig(Said(headers=headers))
    await one.provider.complete(ask())
    limits = one.event("llm:response")["rate_limits"]
    assert limits["requests"]["remaining"] == 49


async def test_a_refusal_without_another_model(rig: MakeRig) -> None:
    """Without another model a refusal is an error."""
    one = await rig(Said(finish="content_filter"))
    with pytest.raises(ContentFilterError):
        await one.provider.complete(ask())
    assert one.events("provider:fallback") == []


async def test_another_model_after_a_refusal(rig: MakeRig, caplog: pytest.LogCaptureFixture) -> None:
    """With another model that one is asked, and it is told."""
    one = await rig(Said(finish="content_filter"), Said(), refusal_fallback_model="claude-opus-4-1")
    with caplog.at_level(logging.WARNING):
        assert (await one.provider.complete(ask())).text == "Hello world"
    told = one.event("provider:fallback")
    assert (told["model"], told["fallback_model"], told["reason"]) == (
        "claude-sonnet-4-6",
        "claude-opus-4-1",
        "refusal",
    )
    assert one.server.bodies[-1]["model"] == "claude-opus-4-1"
    assert "using claude-opus-4-1 instead" in caplog.text


async def test_overload(rig: MakeRig) -> None:
    """An overloaded model is replaced for a while when that is wanted, after fewer attempts, and it is told."""
    busy = WIRE.refusal(529, "overloaded_error", "busy")
    one = await rig(busy, busy, Said(), fallback_on_overload=True)
    assert (await one.provider.complete(ask())).text == "Hello world"
    await one.provider.complete(ask())
    models = [body["model"] for body in one.server.bodies]
    assert models == ["claude-sonnet-4-6"] * 2 + ["claude-haiku-4-5"] * 2
    assert [told["reason"] for told in one.events("provider:fallback")] == ["overloaded", "overloaded"]


async def test_overload_without_fallback(rig: MakeRig) -> None:
    """Nobody else answers unless that is wanted."""
    one = await rig(WIRE.refusal(529, "overloaded_error", "busy"))
    with pytest.raises(ProviderUnavailableError):
        await one.provider.complete(ask())
    assert len(one.server.requests) == 3
    assert one.events("provider:fallback") == []


async def test_cloudflare(rig: MakeRig) -> None:
    """A page in between is told by its own event."""
    one = await rig(Reply.page(403), max_retries=0)
    with pytest.raises(ProviderUnavailableError):
        await one.provider.complete(ask())
    assert one.event("provider:cloudflare_challenge")["provider"] == "anthropic"


async def test_schemas_by_tool(rig: MakeRig) -> None:
    """Models without forms, and schemas that are open on purpose, get a tool for the answer."""
    open_schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    closed = {"type": "object", "properties": {"a": {"type": "integer"}}}
    for model, schema in (("claude-3-7-sonnet-latest", closed), ("claude-sonnet-4-5", open_schema)):
        one = await rig(Said((), calls=(("c", ANSWER_TOOL, {"a": 1}),)))
        wanted = ResponseFormatJsonSchema(json_schema=schema)
        response = await one.provider.complete(ask(model=model, response_format=wanted))
        assert json.loads(response.text or "") == {"a": 1}
        body = one.server.bodies[-1]
        assert body["tool_choice"] == {"type": "tool", "name": ANSWER_TOOL}
        assert "output_config" not in body


async def test_retired_models_are_reported_once(
    rig: MakeRig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That a model will be gone is said once per process."""
    monkeypatch.setattr("amplifier_module_provider_anthropic.provider._warned_of", set())
    one = await rig(Said())
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await one.provider.complete(ask(model="claude-opus-4-0"))
    assert caplog.text.count("claude-opus-4-0 is retired") == 1


async def test_models_tell_their_limits(rig: MakeRig) -> None:
    """The service's word on a model wins over what is known, the config over both; retired ones are left out."""
    listed = [
        {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": life,
            "max_input_tokens": 123,
            "max_tokens": 45,
        }
        for name, life in (("a", "active"), ("b", "retired"), ("c", "deprecated"))
    ]
    reply = Reply.json({"data": listed, "has_more": False, "first_id": "a", "last_id": "c"})
    models = await (await rig(reply)).provider.list_models()
    assert [(model.id, model.context_window, model.max_output_tokens) for model in models] == [
        ("a", 123, 45),
        ("c", 123, 45),
    ]
    limited = await rig(reply, context_window=99)
    assert {model.context_window for model in await limited.provider.list_models()} == {99}
    assert limited.provider.get_model_info().context_window == 99
