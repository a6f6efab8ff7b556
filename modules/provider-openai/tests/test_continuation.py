"""Answers that were cut at the limit of tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core.llm_errors import InvalidToolCallError, StreamError
from amplifier_testing.llm import Reply, ResponsesWire, Said, sse
from amplifier_testing.llm.rig import Rig, ask

WIRE = ResponsesWire()
MakeRig = Callable[..., Awaitable[Rig]]


def _cut(*items: Any, response_id: str = "r1") -> Reply:
    return WIRE.stream(items, incomplete="max_output_tokens", response_id=response_id)


async def test_text_goes_on(rig: MakeRig) -> None:
    """Text that was cut is gone on with from where it ended, and is one answer."""
    half = WIRE.message("Hello", " wo", item_id="m1", status="incomplete")
    one = await rig(_cut(WIRE.reasoning(["Hm."], encrypted_content="e"), half), Said(("rld",)))
    response = await one.provider.complete(ask("x"))
    assert (response.text, response.finish_reason) == ("Hello world", "stop")
    assert one.event("provider:incomplete_continuation") == {
        "provider": "openai",
        "response_id": "r1",
        "reason": "max_output_tokens",
        "continuation_number": 1,
        "max_attempts": 5,
    }
    first, second = one.server.bodies
    assert [item["type"] for item in second["input"]] == ["message", "reasoning", "message"]
    assert second["input"][-1]["status"] == "incomplete"
    assert first["max_output_tokens"] == second["max_output_tokens"] == 4096
    assert one.streamed() == [("thinking", "Hm."), ("text", "Hello wo"), ("text", "rld")]
    assert len({data["request_id"] for _, data in one.heard if "request_id" in data}) == 1
    metadata = response.metadata or {}
    assert (metadata["openai:continuation_count"], metadata["openai:status"]) == (1, "completed")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (200, 40)


async def test_what_went_on_goes_back(rig: MakeRig) -> None:
    """The messages of a continued answer are sent back as they came, each under its id."""
    half = WIRE.message("Hello", item_id="m1", status="incomplete")
    one = await rig(_cut(half), WIRE.stream([WIRE.message(" world", item_id="m2", phase="final_answer")]), Said())
    response = await one.provider.complete(ask("x"))
    stored = {"role": "assistant", "content": [block.model_dump() for block in response.content]}
    await one.provider.complete(ask("x", {**stored, "metadata": response.metadata}, "y"))
    sent = one.server.bodies[-1]["input"][1:3]
    assert [(item["id"], item["status"], item.get("phase")) for item in sent] == [
        ("m1", "incomplete", None),
        ("m2", "completed", "final_answer"),
    ]


async def test_at_most_five_times(rig: MakeRig) -> None:
    """An answer without an end is given up after five continuations, with the reason."""
    one = await rig(_cut(WIRE.message("a", status="incomplete")))
    response = await one.provider.complete(ask("x"))
    assert (response.text, response.finish_reason) == ("a" * 6, "length")
    assert [told["continuation_number"] for told in one.events("provider:incomplete_continuation")] == [1, 2, 3, 4, 5]
    assert (response.metadata or {})["openai:incomplete_reason"] == "max_output_tokens"


async def test_not_beyond_what_the_request_allows(rig: MakeRig) -> None:
    """A request's own limit is kept to."""
    one = await rig(_cut(WIRE.message("a")))
    assert (await one.provider.complete(ask("x", max_output_tokens=9))).finish_reason == "length"
    assert len(one.server.requests) == 1


async def test_a_cut_call_is_generated_again(rig: MakeRig) -> None:
    """A call that was cut is withdrawn and generated again, with the full output limit."""
    part = WIRE.function("c1", "look", '{"where": "he', status="incomplete")
    one = await rig(_cut(WIRE.message("I look."), part), Said((), calls=(("c2", "look", {"where": "here"}),)))
    response = await one.provider.complete(ask("x", tools=("look",)))
    assert [(call.id, call.arguments) for call in response.tool_calls or ()] == [("c2", {"where": "here"})]
    assert (response.text, response.finish_reason) == ("I look.", "tool_use")
    second = one.server.bodies[1]
    assert [item["type"] for item in second["input"]] == ["message", "message"]
    assert second["max_output_tokens"] == 128_000
    assert [kind for kind, _ in one.streamed()] == ["text", "tool_use", "tool_use"]


@pytest.mark.parametrize("is_listed", [True, False])
async def test_a_call_that_just_stops(rig: MakeRig, is_listed: bool) -> None:
    """It is the same when the service does not even end the item, whether or not its last event lists it."""
    part = WIRE.function("c1", "look", '{"where": "he', status="incomplete")
    pieces = [piece for piece in _cut(part).pieces[:-1] if b"output_item.done" not in piece]
    last = WIRE.response([part[0]] if is_listed else [], incomplete="max_output_tokens")
    pieces.append(sse({"type": "response.incomplete", "response": last}, "response.incomplete"))
    one = await rig(Reply.stream(pieces), Said(("Never mind.",)))
    response = await one.provider.complete(ask("x", tools=("look",)))
    assert (response.text, response.tool_calls) == ("Never mind.", None)
    assert one.events("provider:retry") == []


async def test_cut_thinking_is_generated_again(rig: MakeRig) -> None:
    """Thinking that led to nothing is not sent back, neither now nor later: the service would refuse it."""
    lost = WIRE.reasoning(["Hm."], item_id="rs_1", encrypted_content="e1")
    found = [WIRE.reasoning(["Aha."], item_id="rs_2", encrypted_content="e2"), WIRE.message("b")]
    one = await rig(_cut(lost), WIRE.stream(found), Said())
    response = await one.provider.complete(ask("x"))
    assert (response.metadata or {})["openai:reasoning_items"] == ["rs_2"]
    stored = {"role": "assistant", "content": [block.model_dump() for block in response.content]}
    await one.provider.complete(ask("x", stored, "y"))
    _, second, third = one.server.bodies
    assert (len(second["input"]), second["max_output_tokens"]) == (1, 128_000)
    assert [item.get("id") for item in third["input"] if item["type"] == "reasoning"] == ["rs_2"]


async def test_no_room_left(rig: MakeRig) -> None:
    """A call that does not fit into all the room there is, is an error that says what to do."""
    one = await rig(_cut(WIRE.function("c1", "look", '{"where": "he', status="incomplete")), max_tokens=128_000)
    with pytest.raises(InvalidToolCallError, match="raise max_tokens"):
        await one.provider.complete(ask("x", tools=("look",)))
    assert len(one.server.requests) == 1


async def test_a_continuation_that_breaks(rig: MakeRig) -> None:
    """An answer whose continuation breaks is made again from the beginning."""
    half = _cut(WIRE.message("Hel", status="incomplete"))
    one = await rig(half, WIRE.reply(Said(("lo",))).cut(2), half, Said(("lo",)))
    response = await one.provider.complete(ask("x"))
    assert response.text == "Hello"
    assert one.event("provider:retry")["error_type"] == StreamError.__name__
    assert len(one.events("llm:stream_aborted")) == 1
