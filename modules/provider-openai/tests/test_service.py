"""What is OpenAI's alone: its own tools, its forms, its refusals, and servers that speak its protocol in their way."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core import ToolSpec
from amplifier_core.llm_errors import ContentFilterError, LLMError, ProviderUnavailableError, RateLimitError
from amplifier_core.message_models import ResponseFormatJson, ResponseFormatJsonSchema
from amplifier_testing.llm import Reply, ResponsesWire, Said, sse
from amplifier_testing.llm.rig import Rig, ask

WIRE = ResponsesWire()
MakeRig = Callable[..., Awaitable[Rig]]


def _stored(response: Any) -> dict[str, Any]:
    content = [block.model_dump() for block in response.content]
    return {"role": "assistant", "content": content, "metadata": response.metadata}


def _with_tool(spec: dict[str, Any]) -> Any:
    request = ask("x")
    request.tools = [ToolSpec.model_validate(spec)]
    return request


SEARCH: dict[str, Any] = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "q"},
}
OPENING: dict[str, Any] = {**SEARCH, "id": "ws_2", "action": {"type": "open_page", "url": "u"}}
CITED = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 5}


async def test_its_own_tools(rig: MakeRig) -> None:
    """What ran at the service's is kept as it came, paid for, and sent back as it came."""
    items = [WIRE.reasoning(["Hm."], encrypted_content="e"), (SEARCH, []), WIRE.message("Found", annotations=[CITED])]
    one = await rig(WIRE.stream(items), enable_response_chaining=False)
    spec = {"name": "web_search", "parameters": {}, "type": "web_search", "search_context_size": "low"}
    request = _with_tool(spec)
    response = await one.provider.complete(request)
    assert one.server.bodies[-1]["tools"] == [{"type": "web_search", "search_context_size": "low"}]
    assert response.content[-1].model_dump()["citations"] == [CITED]
    assert response.usage is not None
    # Searches cost money of their own; looking at what was found does not.
    plain = await rig(WIRE.stream([(OPENING, []), WIRE.message("Read")]))
    cheaper = (await plain.provider.complete(ask())).usage
    assert cheaper is not None
    assert response.usage.cost_usd is not None
    assert cheaper.cost_usd is not None
    assert response.usage.cost_usd > cheaper.cost_usd
    await one.provider.complete(ask("x", _stored(response), "y"))
    sent = one.server.bodies[-1]["input"]
    assert [item["type"] for item in sent] == ["message", "reasoning", "web_search_call", "message", "message"]
    assert sent[3]["content"][0]["annotations"] == [CITED]


async def test_edited_messages_go_by_their_blocks(rig: MakeRig) -> None:
    """What was taken out of a message after it came is not sent, although the items were kept."""
    one = await rig(WIRE.stream([(SEARCH, []), WIRE.message("my secret")]), Said())
    stored = _stored(await one.provider.complete(ask("x")))
    stored["content"][0]["text"] = "[REDACTED]"
    await one.provider.complete(ask("x", stored, "y"))
    sent = json.dumps(one.server.bodies[-1]["input"])
    assert "[REDACTED]" in sent
    assert "secret" not in sent


PATCH = {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b\n"}


@pytest.mark.parametrize(
    ("engine", "model", "is_native"),
    [("native", "gpt-5.5", True), ("function", "gpt-5.5", False), (None, "gpt-5.5", False), ("native", "o3", False)],
)
async def test_patches(rig: MakeRig, engine: str | None, model: str, is_native: bool) -> None:
    """The tool for patches is the service's own when it takes patches in that form and the model has it."""
    one = await rig(Said())
    if engine is not None:
        one.coordinator.register_capability("apply_patch.engine", engine)
    await one.provider.complete(ask("x", tools=("apply_patch",), model=model))
    [tool] = one.server.bodies[-1]["tools"]
    assert (tool == {"type": "apply_patch"}) is is_native
    assert (tool.get("name") == "apply_patch") is not is_native


async def test_a_patch_and_its_results(rig: MakeRig) -> None:
    """A patch of the service's own tool is a call like any other, and its result goes back in the tool's own form."""
    made = {"type": "apply_patch_call", "id": "apc_1", "call_id": "c1", "status": "completed", "operation": PATCH}
    one = await rig(WIRE.stream([(made, [])]), Said(), enable_response_chaining=False)
    one.coordinator.register_capability("apply_patch.engine", "native")
    response = await one.provider.complete(ask("x", tools=("apply_patch",)))
    [call] = response.tool_calls or []
    assert (call.id, call.name, call.arguments, response.finish_reason) == ("c1", "apply_patch", PATCH, "tool_use")
    for output, status in (("M a.py", "completed"), ("context_mismatch: ...", "failed")):
        result = {"role": "tool", "tool_call_id": "c1", "content": output}
        await one.provider.complete(ask("x", _stored(response), result, tools=("apply_patch",)))
        sent = one.server.bodies[-1]["input"][1:]
        assert sent[0] == made
        assert sent[1] == {"type": "apply_patch_call_output", "call_id": "c1", "status": status, "output": output}


async def test_unsupported_kinds_of_calls_are_reported(rig: MakeRig, caplog: pytest.LogCaptureFixture) -> None:
    """A call of a kind that no tool supports is reported instead of being dropped silently."""
    shell = {"type": "local_shell_call", "id": "l1", "call_id": "c", "status": "completed"}
    one = await rig(WIRE.stream([({**shell, "action": {"type": "exec", "command": ["ls"], "env": {}}}, [])]))
    with caplog.at_level(logging.WARNING):
        assert (await one.provider.complete(ask())).tool_calls is None
    assert "local_shell_call" in caplog.text


async def test_paragraphs_of_thinking(rig: MakeRig) -> None:
    """The parts of a summary are paragraphs of one block; the item is kept whole, and a part without text too."""
    told = WIRE.reasoning(["One", "."], ["Two."], item_id="rs_1", encrypted_content="e1")
    silent = WIRE.reasoning(item_id="rs_2", encrypted_content="e2")
    one = await rig(WIRE.stream([told, silent, WIRE.message("b")]), Said(), enable_response_chaining=False)
    response = await one.provider.complete(ask("x"), extended_thinking=True)
    assert one.streamed() == [("thinking", "One.\n\nTwo."), ("text", "b")]
    assert [block.model_dump().get("thinking") for block in response.content] == ["One.\n\nTwo.", "", None]
    await one.provider.complete(ask("x", _stored(response), "y"))
    sent = one.server.bodies[-1]["input"]
    assert [item.get("encrypted_content") for item in sent] == [None, "e1", "e2", None, None]
    assert sent[1] == told[0]


async def test_a_model_that_declines(rig: MakeRig) -> None:
    """A refusal in the model's own words is an error with these words."""
    message, _ = WIRE.message("")
    message["content"] = [{"type": "refusal", "refusal": "I would rather not."}]
    deltas = [{"type": "response.refusal.delta", "delta": "I would rather not.", "content_index": 0}]
    one = await rig(WIRE.stream([(message, deltas)]))
    with pytest.raises(ContentFilterError, match="I would rather not"):
        await one.provider.complete(ask())


@pytest.mark.parametrize(
    ("error", "expected", "requests"),
    [
        ({"code": "server_error", "message": "oops"}, ProviderUnavailableError, 3),
        ({"code": "rate_limit_exceeded", "message": "slow"}, RateLimitError, 3),
        ({"code": "image_too_large", "message": "too large"}, LLMError, 1),
        ({"code": None, "message": "oops"}, ProviderUnavailableError, 3),
        ({"code": None, "type": "rate_limit_exceeded", "message": "slow"}, RateLimitError, 3),
        (None, ProviderUnavailableError, 3),
    ],
)
async def test_failed_responses(
    rig: MakeRig, error: dict[str, str | None] | None, expected: type[LLMError], requests: int
) -> None:
    """A response that failed is an error, tried again when that can help."""
    failed = WIRE.response([], status="failed", error=error)
    one = await rig(Reply.stream([sse({"type": "response.failed", "response": failed}, "response.failed")]))
    with pytest.raises(expected):
        await one.provider.complete(ask())
    assert len(one.server.requests) == requests


async def test_errors_in_their_own_envelope(rig: MakeRig) -> None:
    """An error event that wraps its error, which the SDK raises itself, is the same error."""
    event = sse({"type": "error", "error": {"type": "server_error", "code": None, "message": "oops"}}, "error")
    one = await rig(Reply.stream([event]), max_retries=0)
    with pytest.raises(ProviderUnavailableError, match="oops"):
        await one.provider.complete(ask())


async def test_a_server_that_tells_no_places(rig: MakeRig) -> None:
    """Servers that leave out places and ids of items are understood as well."""
    items = [
        WIRE.reasoning(["Hm."], encrypted_content=""),
        WIRE.message("Hello", " you"),
        WIRE.function("c1", "look", '{"where": "x"}'),
        WIRE.function("c2", "look", '{"where": "y"}'),
    ]
    events = [json.loads(piece.split(b"data: ")[1]) for piece in WIRE.stream(items).pieces]
    for event in events:
        event.pop("output_index", None)
        event.pop("content_index", None)
        event.pop("sequence_number", None)
        if event.get("item", {}).get("type") == "function_call":
            event["item"].pop("id")
            event["item"]["call_id"] = f"fc_{event['item']['call_id']}"
    one = await rig(Reply.stream([sse(event, event["type"]) for event in events]))
    response = await one.provider.complete(ask("x", tools=("look",)))
    assert response.text == "Hello you"
    assert [(call.id, call.arguments) for call in response.tool_calls or ()] == [
        ("fc_c1", {"where": "x"}),
        ("fc_c2", {"where": "y"}),
    ]
    assert [kind for kind, _ in one.streamed()] == ["thinking", "text", "tool_use", "tool_use"]


async def test_a_server_that_streams_only_the_end(rig: MakeRig) -> None:
    """An answer that comes whole, in its last event, is read from it."""
    items = [WIRE.reasoning(["Hm."])[0], WIRE.message("Hello")[0], WIRE.function("c1", "look", "{}")[0]]
    event = {"type": "response.completed", "response": WIRE.response(items)}
    one = await rig(Reply.stream([sse(event, "response.completed")]))
    response = await one.provider.complete(ask("x", tools=("look",)))
    assert (response.text, len(response.tool_calls or ())) == ("Hello", 1)
    assert one.streamed()[:2] == [("thinking", "Hm."), ("text", "Hello")]


STRICT = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]}
LOOSE = {"type": "object", "properties": {"a": {"type": "integer"}}}
OPEN = {"type": "object", "additionalProperties": {"type": "integer"}}
CLOSED = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict", "sent", "is_strict"),
    [(STRICT, None, CLOSED, True), (LOOSE, None, LOOSE, False), (LOOSE, True, CLOSED, True), (OPEN, True, OPEN, False)],
)
async def test_forms(rig: MakeRig, schema: dict[str, Any], strict: bool | None, sent: Any, is_strict: bool) -> None:
    """A schema is held to strictly when it allows that, and else is given as it is and checked here."""
    one = await rig(Said(('{"a": 1}',)))
    wanted = ResponseFormatJsonSchema(json_schema=schema, strict=strict)
    assert json.loads((await one.provider.complete(ask(response_format=wanted))).text or "") == {"a": 1}
    form = one.server.bodies[-1]["text"]["format"]
    assert form == {"type": "json_schema", "name": "answer", "schema": sent, "strict": is_strict}


@pytest.mark.parametrize(
    ("model", "schema"), [("gpt-5.5", {"type": "array", "items": {"type": "integer"}}), ("gpt-4-turbo", OPEN)]
)
async def test_forms_in_words(rig: MakeRig, model: str, schema: dict[str, Any]) -> None:
    """Schemas of no object, and models without forms, are asked for in words."""
    one = await rig(Said(("[1]" if schema["type"] == "array" else "{}",)))
    await one.provider.complete(ask(model=model, response_format=ResponseFormatJsonSchema(json_schema=schema)))
    assert "text" not in one.server.bodies[-1]
    assert "JSON schema" in json.dumps(one.server.bodies[-1]["input"])


async def test_any_json(rig: MakeRig) -> None:
    """Any JSON is asked for as an object without a schema, which needs no words in the prompt."""
    one = await rig(Said(("{}",)))
    await one.provider.complete(ask(response_format=ResponseFormatJson()))
    form = one.server.bodies[-1]["text"]["format"]
    assert (form["schema"], form["strict"]) == ({"type": "object"}, False)


async def test_rate_limits_are_reported(rig: MakeRig) -> None:
    """The limits of the response's headers are in the event."""
    headers = {"x_ratelimit_limit_requests": "50", "x_ratelimit_remaining_requests": "49"}
    one = await rig(Said(headers=headers))
    await one.provider.complete(ask())
    assert one.event("llm:response")["rate_limits"]["requests"]["remaining"] == 49


async def test_caches_and_dates(rig: MakeRig) -> None:
    """What was read from and written to the cache is counted apart, and a dated model has its model's price."""
    one = await rig(Said(prompt_tokens=1000, cache_read=600, cache_write=300, model="gpt-5.5-2026-04-23"))
    usage = (await one.provider.complete(ask())).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (700, 600, 300)
    assert usage.cost_usd is not None


async def test_metadata(rig: MakeRig) -> None:
    """A response tells its id and how it ended, under the published keys."""
    one = await rig(Said(("a",), ("Hm.",)))
    metadata = (await one.provider.complete(ask())).metadata or {}
    assert metadata.pop("openai:chain")
    assert metadata == {
        "openai:response_id": "resp_test",
        "openai:status": "completed",
        "openai:reasoning_items": ["rs_test"],
    }


@pytest.mark.parametrize(("filtered", "count"), [(True, 2), (False, 5)])
async def test_models_that_do_not_talk(rig: MakeRig, filtered: bool, count: int) -> None:
    """Models for sounds, pictures and vectors are left out of the list, unless all are wanted."""
    listed = WIRE.models("gpt-5.5", "text-embedding-3-large", "gpt-image-2", "whisper-1", "o3")
    one = await rig(listed, filtered=filtered)
    assert len(await one.provider.list_models()) == count
