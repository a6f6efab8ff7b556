"""Models for research, which take minutes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core.llm_errors import LLMError, LLMTimeoutError, ProviderUnavailableError
from amplifier_core.testing import wait_for
from amplifier_testing.llm import Reply, ResponsesWire
from amplifier_testing.llm.rig import Rig, ask

WIRE = ResponsesWire()
MODEL = "o3-deep-research"
MakeRig = Callable[..., Awaitable[Rig]]


def _state(status: str, *items: Any) -> Reply:
    return Reply.json(WIRE.response([item for item, _ in items], status=status))


DONE = _state("completed", WIRE.reasoning(["Hm."], encrypted_content="e"), WIRE.message("It is so."))


async def test_it_is_asked_for_until_it_is_there(rig: MakeRig) -> None:
    """The response is begun once and asked for until it is there; every change of its status is told."""
    one = await rig(_state("queued"), _state("queued"), _state("in_progress"), DONE)
    response = await one.provider.complete(ask("x", tools=("look",), model=MODEL))
    assert (response.text, response.finish_reason) == ("It is so.", "stop")
    assert [heard.method for heard in one.server.requests] == ["POST", "GET", "GET", "GET"]
    assert one.server.requests[-1].path == "/responses/resp_test"
    told = one.events("provider:background_status")
    assert [event["status"] for event in told] == ["queued", "in_progress", "completed"]
    assert (told[0]["provider"], told[0]["model"], told[0]["response_id"]) == ("openai", MODEL, "resp_test")
    body = one.server.bodies[0]
    assert (body["background"], body["store"], body["stream"]) == (True, True, False)
    assert body["tools"] == [{"type": "web_search_preview"}]
    assert one.streamed() == [("thinking", "Hm."), ("text", "It is so.")]


async def test_a_question_that_fails_is_asked_again(rig: MakeRig) -> None:
    """What runs is not begun anew because it could not be asked for."""
    down = WIRE.refusal(503, "", "down")
    one = await rig(_state("queued"), down, down, DONE)
    assert (await one.provider.complete(ask("x", model=MODEL))).text == "It is so."
    assert [heard.method for heard in one.server.requests].count("POST") == 1


@pytest.mark.parametrize(("reply", "asked"), [(WIRE.refusal(503, "", "down"), 3), (WIRE.refusal(401, "", "no"), 1)])
async def test_giving_up(rig: MakeRig, reply: Reply, asked: int) -> None:
    """A response that cannot be asked for is called off, and not begun anew."""
    one = await rig(_state("queued"), reply)
    with pytest.raises(LLMError):
        await one.provider.complete(ask("x", model=MODEL))
    calls = [(heard.method, heard.path) for heard in one.server.requests]
    assert calls == [("POST", "/responses"), *[("GET", "/responses/resp_test")] * asked, CANCEL]


CANCEL = ("POST", "/responses/resp_test/cancel")


async def test_too_late(rig: MakeRig) -> None:
    """After `background_timeout` the response is called off, and the error says what to raise."""
    one = await rig(_state("queued"), background_timeout=0.05, poll_interval=0.03)
    with pytest.raises(LLMTimeoutError, match="background_timeout") as caught:
        await one.provider.complete(ask("x", model=MODEL))
    assert not caught.value.retryable
    assert (one.server.requests[-1].method, one.server.requests[-1].path) == CANCEL


async def test_called_off_here(rig: MakeRig) -> None:
    """Whoever is cancelled while waiting calls the response off at the service's."""
    one = await rig(_state("queued"), poll_interval=3600, background_timeout=7200)
    task = asyncio.create_task(one.provider.complete(ask("x", model=MODEL)))
    assert await wait_for(lambda: bool(one.events("provider:background_status")), timeout=60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (one.server.requests[-1].method, one.server.requests[-1].path) == CANCEL


async def test_called_off_there(rig: MakeRig) -> None:
    """A response that somebody called off at the service's is an error, and not begun anew."""
    one = await rig(_state("queued"), _state("cancelled"))
    with pytest.raises(LLMError, match="was cancelled"):
        await one.provider.complete(ask("x", model=MODEL))
    assert len(one.server.requests) == 2


async def test_a_response_that_fails(rig: MakeRig) -> None:
    """A response that fails is an error of the service's."""
    failed = Reply.json(WIRE.response([], status="failed", error={"code": "server_error", "message": "oops"}))
    one = await rig(_state("queued"), failed, max_retries=0)
    with pytest.raises(ProviderUnavailableError, match="oops"):
        await one.provider.complete(ask("x", model=MODEL))
