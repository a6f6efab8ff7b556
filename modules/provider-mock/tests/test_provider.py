"""The provider: events, streaming, errors, facts."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ChatRequest
from amplifier_core.llm_errors import InvalidRequestError, RateLimitError, StreamError
from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_module_provider_mock import mount

Ask = Callable[..., ChatRequest]
Write = Callable[[str], Path]


async def mounted(coordinator: MockCoordinator, **config: Any) -> Any:
    """Mount the module and return its provider."""
    await mount(coordinator, config)
    return coordinator.get("providers", "mock")


def heard(coordinator: MockCoordinator, *names: str) -> list[dict[str, Any]]:
    """Return the data of the events with these names."""
    return [data for event, data in coordinator.get_capability("heard") if event in names]


async def test_an_answer_is_told_from_request_to_response(coordinator: MockCoordinator, ask: Ask) -> None:
    """A call is one request, its stream and one response, all under one request id of its own."""
    provider = await mounted(coordinator, responses=[{"thinking": "let me  think", "text": "hello big world"}])
    response = await provider.complete(ask("hi", model="other"))
    events = coordinator.get_capability("heard")
    [request_id] = {data["request_id"] for _, data in events}
    assert uuid.UUID(request_id).version == 4
    assert [(event.removeprefix("llm:"), data.get("text")) for event, data in events] == [
        ("request", None),
        ("stream_block_start", None),
        ("stream_block_delta", "let "),
        ("stream_block_delta", "me  "),
        ("stream_block_delta", "think"),
        ("stream_block_end", None),
        ("stream_block_start", None),
        ("stream_block_delta", "hello "),
        ("stream_block_delta", "big "),
        ("stream_block_delta", "world"),
        ("stream_block_end", None),
        ("response", None),
    ]
    [asked] = heard(coordinator, "llm:request")
    facts = {"provider": "mock", "model": "other", "request_id": request_id}
    assert asked == {**facts, "message_count": 1, "tool_count": 0, "stream": True}
    [answered] = heard(coordinator, "llm:response")
    duration = answered.pop("duration_ms")
    assert isinstance(duration, int)
    usage = {"input_tokens": 0, "output_tokens": 7, "total_tokens": 7, "cost_usd": "0"}
    assert answered == {**facts, "status": "ok", "usage": usage}
    assert response.text == "hello big world"


async def test_every_call_has_its_own_request_id(coordinator: MockCoordinator, ask: Ask) -> None:
    """Two calls at the same time are told apart."""
    provider = await mounted(coordinator)
    await asyncio.gather(provider.complete(ask("a")), provider.complete(ask("b")))
    requests = [data["request_id"] for data in heard(coordinator, "llm:request")]
    responses = [data["request_id"] for data in heard(coordinator, "llm:response")]
    assert len(set(requests)) == 2
    assert set(requests) == set(responses)


async def test_tool_calls_are_blocks_with_names(coordinator: MockCoordinator, ask: Ask, scenario_file: Write) -> None:
    """Blocks are numbered through, and a tool call's block carries the tool's name."""
    path = scenario_file("turns: [{text: a, tool_calls: [{name: look, arguments: {x: 1}}, {name: go}]}]")
    provider = await mounted(coordinator, scenario=str(path))
    response = await provider.complete(ask("hi", tools=("look", "go")))
    starts = heard(coordinator, "llm:stream_block_start")
    assert [(data["block_index"], data["block_type"], data.get("name")) for data in starts] == [
        (0, "text", None),
        (1, "tool_use", "look"),
        (2, "tool_use", "go"),
    ]
    assert [data["block_index"] for data in heard(coordinator, "llm:stream_block_end")] == [0, 1, 2]
    calls = [(call.name, call.arguments) for call in provider.parse_tool_calls(response)]
    assert calls == [("look", {"x": 1}), ("go", {})]
    assert response.finish_reason == "tool_use"
    assert heard(coordinator, "llm:request")[0]["tool_count"] == 2


@pytest.mark.parametrize(
    ("config", "metadata", "streams"),
    [
        ({}, None, True),
        ({"use_streaming": True}, {"stream": True}, True),
        ({"use_streaming": False}, None, False),
        ({}, {"stream": False}, False),
        ({"use_streaming": False}, {"stream": True}, False),
    ],
)
async def test_streaming_can_be_switched_off(
    coordinator: MockCoordinator, ask: Ask, config: dict[str, Any], metadata: dict[str, Any] | None, streams: bool
) -> None:
    """By config for good, by a request's metadata for that call only."""
    provider = await mounted(coordinator, **config)
    await provider.complete(ask("hi", metadata=metadata))
    assert bool(heard(coordinator, "llm:stream_block_start")) is streams
    assert heard(coordinator, "llm:request")[0]["stream"] is streams
    assert len(heard(coordinator, "llm:response")) == 1


async def test_a_scripted_error_is_raised(coordinator: MockCoordinator, ask: Ask, scenario_file: Write) -> None:
    """The error of an entry is raised with all it says, after a response with status error, and the script goes on."""
    error = "{type: RateLimitError, message: slow down, retryable: false, status_code: 429, retry_after: 3}"
    provider = await mounted(coordinator, scenario=str(scenario_file(f"turns: [{{error: {error}}}, {{text: ok}}]")))
    with pytest.raises(RateLimitError, match=r"^slow down$") as caught:
        await provider.complete(ask("hi"))
    raised = caught.value
    assert (raised.provider, raised.retryable, raised.status_code, raised.retry_after) == ("mock", False, 429, 3)
    [answered] = heard(coordinator, "llm:response")
    assert (answered["status"], answered["error"]) == ("error", {"type": "RateLimitError", "message": "slow down"})
    assert answered["request_id"] == heard(coordinator, "llm:request")[0]["request_id"]
    assert heard(coordinator, "llm:stream_aborted") == []
    assert (await provider.complete(ask("hi"))).text == "ok"


async def test_an_error_in_the_middle_aborts_the_stream(
    coordinator: MockCoordinator, ask: Ask, scenario_file: Write
) -> None:
    """An entry with text and an error breaks off in its last block, and says so."""
    path = scenario_file("turns: [{thinking: hm, text: half an, error: {type: StreamError, message: lost}}]")
    provider = await mounted(coordinator, scenario=str(path))
    with pytest.raises(StreamError, match="lost"):
        await provider.complete(ask("hi"))
    assert [data["block_index"] for data in heard(coordinator, "llm:stream_block_end")] == [0]
    [aborted] = heard(coordinator, "llm:stream_aborted")
    assert aborted["error"] == {"type": "StreamError", "msg": "lost"}
    names = [event for event, _ in coordinator.get_capability("heard")]
    assert names[-2:] == ["llm:stream_aborted", "llm:response"]


async def test_without_streaming_nothing_is_aborted(
    coordinator: MockCoordinator, ask: Ask, scenario_file: Write
) -> None:
    """Whoever heard nothing of an answer hears nothing of its end."""
    path = scenario_file("turns: [{text: half, error: {type: StreamError}}]")
    provider = await mounted(coordinator, scenario=str(path), use_streaming=False)
    with pytest.raises(StreamError):
        await provider.complete(ask("hi"))
    assert heard(coordinator, "llm:stream_aborted") == []


async def test_a_cancelled_call_is_closed(coordinator: MockCoordinator, ask: Ask, scenario_file: Write) -> None:
    """A call that is cancelled while the model takes its time ends with a response all the same."""
    provider = await mounted(coordinator, scenario=str(scenario_file("turns: [{text: late, delay_ms: 60000}]")))
    call = asyncio.ensure_future(provider.complete(ask("hi")))
    assert await wait_for(lambda: bool(heard(coordinator, "llm:request")), timeout=60)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    [answered] = heard(coordinator, "llm:response")
    assert (answered["status"], answered["error"]["type"]) == ("error", "CancelledError")


async def test_a_delay_is_waited(
    coordinator: MockCoordinator, ask: Ask, scenario_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model takes as long as its script says, before its first word."""
    slept: list[tuple[float, int]] = []

    async def sleep(seconds: float) -> None:
        slept.append((seconds, len(coordinator.get_capability("heard"))))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    provider = await mounted(coordinator, scenario=str(scenario_file("turns: [{text: late, delay_ms: 1500}, {}]")))
    await provider.complete(ask("hi"))
    await provider.complete(ask("hi"))
    assert slept == [(1.5, 1)]


async def test_an_exhausted_script_is_a_failed_call(
    coordinator: MockCoordinator, ask: Ask, scenario_file: Write
) -> None:
    """A call without an answer is an error like any other, with its events."""
    provider = await mounted(coordinator, scenario=str(scenario_file("turns: []")))
    with pytest.raises(InvalidRequestError, match=r"^scenario exhausted after 0 calls$"):
        await provider.complete(ask("hi"))
    assert heard(coordinator, "llm:response")[0]["error"] == {
        "type": "InvalidRequestError",
        "message": "scenario exhausted after 0 calls",
    }


@pytest.mark.parametrize("key", ["raw", "raw_debug"])
async def test_raw_payloads_are_for_those_who_ask(coordinator: MockCoordinator, ask: Ask, key: str) -> None:
    """Requests and responses are in the events on demand only, as JSON and without secrets."""
    provider = await mounted(coordinator, responses=["hello"], **{key: True})
    await provider.complete(ask("hi", metadata={"api_key": "secret", "a": 1}))
    [asked], [answered] = heard(coordinator, "llm:request"), heard(coordinator, "llm:response")
    assert asked["raw"]["messages"] == [{"role": "user", "content": "hi"}]
    assert asked["raw"]["metadata"] == {"api_key": "[REDACTED]", "a": 1}
    assert answered["raw"]["content"] == [{"type": "text", "text": "hello"}]
    json.dumps([asked, answered])


async def test_without_raw_there_is_none(coordinator: MockCoordinator, ask: Ask) -> None:
    """By default no event repeats the conversation."""
    await (await mounted(coordinator)).complete(ask("hi"))
    assert not [data for data in heard(coordinator, "llm:request", "llm:response") if "raw" in data]


async def test_the_provider_describes_itself(coordinator: MockCoordinator) -> None:
    """Name, model and limits can be set, and what it can do is listed."""
    provider = await mounted(coordinator, default_model="m-1", context_window=5000, max_output_tokens=100, priority=7)
    info, [model] = provider.get_info(), await provider.list_models()
    assert info.id == provider.name == "mock"
    assert info.defaults == {"model": "m-1", "context_window": 5000, "max_output_tokens": 100}
    assert "streaming" in info.capabilities
    assert (model.id, model.context_window, model.max_output_tokens) == ("m-1", 5000, 100)
    assert provider.get_model_info() == model
    assert provider.priority == 7
    assert provider.config["context_window"] == 5000
    await provider.close()


async def test_a_recorder_lets_others_answer(coordinator: MockCoordinator) -> None:
    """A mock that is there to record another stands back when providers are chosen."""
    assert (await mounted(coordinator)).priority == 100
    assert (await mounted(coordinator, record="x.yaml", record_provider="real")).priority > 100


async def test_cost_is_contributed(coordinator: MockCoordinator, ask: Ask, scenario_file: Write) -> None:
    """Before the first call there is nothing to say; then calls cost what the script says, and that is nothing."""
    path = scenario_file("turns: [{text: a}, {usage: {cost_usd: 0.10}}, {usage: {cost_usd: '0.02'}}, {error: {}}]")
    provider = await mounted(coordinator, scenario=str(path))
    assert await coordinator.collect_contributions("session.cost") == []
    for cost in ("0", "0.1", "0.12"):
        response = await provider.complete(ask("hi"))
        assert await coordinator.collect_contributions("session.cost") == [{"cost_usd": cost}]
    assert str(response.usage.cost_usd) == "0.02"


async def test_stream_events_are_contributed(coordinator: MockCoordinator) -> None:
    """The names beyond the canonical ones are announced."""
    await mounted(coordinator)
    [names] = await coordinator.collect_contributions("observability.events")
    assert "llm:stream_block_delta" in names
    assert "llm:stream_aborted" in names
