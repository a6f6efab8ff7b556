"""Streams of the openai SDK come as the JSON that was sent, through all of the SDK but its types."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from amplifier_kit.llm.client import plain_stream, server_client
from amplifier_testing.llm import ChatWire, ModelServer, Said

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """Start a server without answers."""
    with ModelServer() as server:
        yield server


@pytest.fixture
async def client(server: ModelServer) -> AsyncIterator[Any]:
    """Make a client of that server."""
    client = await server_client(f"{server.url}/v1")
    yield client
    await client.close()


async def test_events_are_the_json_that_was_sent(server: ModelServer, client: Any) -> None:
    """Every event is a plain dict with all that the server said, and the headers are at hand."""
    wire = ChatWire()
    server.answers(wire.reply(Said(("a", "b"), headers={"x_left": "7"})), path=wire.path)
    async with await plain_stream(client.chat.completions, **ASKED) as stream:
        events = [event async for event in stream]
        assert stream.response.headers["x-left"] == "7"
    assert {type(event) for event in events} == {dict}
    said = [event["choices"][0]["delta"].get("content") for event in events if event["choices"]]
    assert [text for text in said if text] == ["a", "b"]
    assert server.bodies[0]["stream"] is True


async def test_leaving_early_closes_the_response(server: ModelServer, client: Any) -> None:
    """The connection does not stay open behind a stream that is no longer read."""
    wire = ChatWire()
    server.answers(wire.reply(Said()).stalled(wire.first_text), path=wire.path)
    async with await plain_stream(client.chat.completions, **ASKED) as stream:
        async for _ in stream:
            break
    assert stream.response.is_closed


async def test_errors_are_the_sdks(server: ModelServer, client: Any) -> None:
    """A refusal, and an error in the middle of a stream, raise what the SDK raises for them."""
    from openai import APIError, AuthenticationError

    wire = ChatWire()
    broken = wire.reply(Said()).inserted(wire.first_text, wire.error_event("server_error", "it broke"))
    server.answers(wire.refusal(401, "invalid_api_key", "who are you?"), broken, path=wire.path)
    with pytest.raises(AuthenticationError, match="who are you"):
        await plain_stream(client.chat.completions, **ASKED)
    async with await plain_stream(client.chat.completions, **ASKED) as stream:
        with pytest.raises(APIError, match="it broke"):
            [event async for event in stream]
    assert stream.response.is_closed
