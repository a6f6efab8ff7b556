"""Measure what our layer adds to the SDKs of the services, and how many streams it holds at once.

Every provider with an SDK answers from a server on this machine that speaks its service's protocol, one event per
token. In turns, through the same client and with the same arguments: the provider, with one subscriber to the tokens;
and the bare SDK, the same stream read to the end and its tokens kept. A token's time is from the first to the last,
divided by their number. What counts is the time of the thread that reads, and its lower quartile over the rounds: what
else the machine did at the time only ever adds. Then so many streams at once,
with the limit off, and none of them may lose a token.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from harness import Row, Setting, lower_quartile

from amplifier_core.testing import MockCoordinator
from amplifier_kit.llm.client import plain_stream
from amplifier_kit.llm.provider import LLMProvider
from amplifier_kit.llm.request import LLMCall, read_conversation
from amplifier_testing.llm import (
    AnthropicWire,
    ChatWire,
    GeminiWire,
    ModelServer,
    OllamaWire,
    Reply,
    ResponsesWire,
    Said,
    WireServer,
)
from amplifier_testing.llm.rig import KEY, ask

FIRST_MS = 3.0
TOKEN_US = 20.0
TOKEN = "tok "

Take = Callable[[str], None]
Bare = Callable[[Any, dict[str, Any], Take], Awaitable[None]]


@dataclass(frozen=True)
class Service:
    """One provider, the protocol of its service, and its SDK used by itself."""

    name: str
    wire: WireServer
    make: Callable[[str, Any, dict[str, Any]], LLMProvider]
    bare: Bare


@dataclass(frozen=True)
class Gathered(Reply):
    """Send nothing before so many answers are waited for."""

    server: ModelServer | None = None
    count: int = 0

    async def send(self, writer: asyncio.StreamWriter) -> bool:
        """Wait for the others, then send."""
        assert self.server is not None
        while self.server.most_at_once < self.count:  # noqa: ASYNC110  # a number on another's thread
            await asyncio.sleep(0.005)
        return await super().send(writer)


def anthropic(url: str, coordinator: Any, config: dict[str, Any]) -> LLMProvider:
    """Return the provider of the Messages API."""
    from amplifier_module_provider_anthropic import AnthropicProvider

    return AnthropicProvider({"base_url": url, **config}, coordinator, api_key=KEY)


async def bare_anthropic(client: Any, payload: dict[str, Any], take: Take) -> None:
    """Take the tokens of the SDK's stream."""
    async with await client.messages.create(**payload, stream=True) as stream:
        async for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                take(event.delta.text)


def openai(url: str, coordinator: Any, config: dict[str, Any]) -> LLMProvider:
    """Return the provider of the Responses API."""
    from amplifier_module_provider_openai import OpenAIProvider

    return OpenAIProvider({"base_url": f"{url}/v1", **config}, coordinator, api_key=KEY)


async def bare_openai(client: Any, payload: dict[str, Any], take: Take) -> None:
    """Take the tokens of the SDK's stream, read as the provider reads it: the SDK's own types cost more."""
    async with await plain_stream(client.responses, **payload) as stream:
        async for event in stream:
            if event["type"] == "response.output_text.delta":
                take(event["delta"])


def chat(url: str, coordinator: Any, config: dict[str, Any]) -> LLMProvider:
    """Return the provider for any server of chat completions."""
    from amplifier_module_provider_chat_completions import ChatCompletionsProvider

    return ChatCompletionsProvider(config, coordinator, base_url=f"{url}/v1", api_key=KEY)


async def bare_chat(client: Any, payload: dict[str, Any], take: Take) -> None:
    """Take the tokens of the SDK's stream, read as the provider reads it: the SDK's own types cost more."""
    usage = {"include_usage": True}
    async with await plain_stream(client.chat.completions, **payload, stream_options=usage) as stream:
        async for chunk in stream:
            if chunk["choices"] and chunk["choices"][0]["delta"].get("content"):
                take(chunk["choices"][0]["delta"]["content"])


def gemini(url: str, coordinator: Any, config: dict[str, Any]) -> LLMProvider:
    """Return the provider of the Gemini API."""
    from amplifier_module_provider_gemini import GeminiProvider

    return GeminiProvider({"base_url": url, **config}, coordinator, api_key=KEY)


async def bare_gemini(client: Any, payload: dict[str, Any], take: Take) -> None:
    """Take the tokens of the SDK's stream, as its documentation does."""
    async for chunk in await client.sdk.aio.models.generate_content_stream(**payload):
        text = chunk.text
        if text:
            take(text)


def ollama(url: str, coordinator: Any, config: dict[str, Any]) -> LLMProvider:
    """Return the provider of an Ollama server."""
    from amplifier_module_provider_ollama import OllamaProvider

    return OllamaProvider({"host": url, "num_ctx": 8192, **config}, coordinator)


async def bare_ollama(client: Any, payload: dict[str, Any], take: Take) -> None:
    """Take the tokens of the SDK's stream, read as the provider reads it: the SDK's own types cost more."""
    async for line in await client._request(dict, "POST", "/api/chat", json=payload, stream=True):
        if line["message"]["content"]:
            take(line["message"]["content"])


SERVICES = (
    Service("anthropic", AnthropicWire(), anthropic, bare_anthropic),
    Service("openai", ResponsesWire(), openai, bare_openai),
    Service("chat-completions", ChatWire(), chat, bare_chat),
    Service("gemini", GeminiWire(), gemini, bare_gemini),
    Service("ollama", OllamaWire(), ollama, bare_ollama),
)


@dataclass(frozen=True)
class Times:
    """Times of one stream, of the thread: milliseconds to the first token, microseconds per token after it."""

    first: float
    token: float


class Stopwatch:
    """Take the times of a stream: at its start, at its first token and at its last."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._tokens: list[str] = []
        self._first = self._last = 0.0

    def hear(self, event: str, data: dict[str, Any]) -> None:
        """Take a token from an event: the subscriber."""
        self.take(data["text"])

    def take(self, token: str) -> None:
        """Keep a token, and the times of the first and of the last."""
        if not self._tokens:
            self._first = time.thread_time()
        self._tokens.append(token)
        if len(self._tokens) == self._count:
            self._last = time.thread_time()

    async def run(self, stream: Callable[[], Awaitable[Any]]) -> Times:
        """Return the times of one stream; raise RuntimeError when tokens are missing."""
        self._tokens = []
        start = time.thread_time()
        await stream()
        if self._tokens != [TOKEN] * self._count:
            raise RuntimeError(f"{len(self._tokens)} of {self._count} tokens came")
        first, tokens = self._first - start, self._last - self._first
        return Times(first * 1e3, tokens * 1e6 / (self._count - 1))


async def side_by_side(service: Service, tokens: int, rounds: int) -> tuple[list[Times], list[Times]]:
    """Return the times of the provider and those of its bare SDK, taken in turns."""
    watch, coordinator = Stopwatch(tokens), MockCoordinator()
    coordinator.hooks.register("llm:stream_block_delta", watch.hear)
    with ModelServer() as server:
        server.answers(service.wire.reply(Said((TOKEN,) * tokens)), path=service.wire.path)
        provider = service.make(server.url, coordinator, {})
        request = ask("hi")
        conversation = read_conversation(request.messages)
        call = LLMCall(request=request, conversation=conversation, model=provider.model, streams=True)
        client = await provider.client()

        async def ours() -> None:
            with coordinator.span("turn"):  # as in a session
                await provider.complete(request)

        async def bare() -> None:
            await service.bare(client, provider.payload(call), watch.take)

        taken: tuple[list[Times], list[Times]] = ([], [])
        for number in range(rounds + 2):
            for kept, stream in zip(taken, (ours, bare), strict=True):
                times = await watch.run(stream)
                if number >= 2:  # the first ones import and compile
                    kept.append(times)
        await provider.close()
    return taken


async def at_once(service: Service, streams: int, tokens: int) -> int:
    """Return how many of so many streams, all under way at the same time, came whole and in order."""
    coordinator = MockCoordinator()
    heard: dict[str, list[int]] = {}

    def hear(_: str, data: dict[str, Any]) -> None:
        heard.setdefault(data["request_id"], []).append(data["sequence"])

    coordinator.hooks.register("llm:stream_block_delta", hear)
    with ModelServer() as server:
        pieces = service.wire.reply(Said((TOKEN,) * tokens))
        whole = Gathered(pieces.status, pieces.headers, pieces.pieces, is_chunked=True, server=server, count=streams)
        server.answers(whole, path=service.wire.path)
        provider = service.make(server.url, coordinator, {"max_concurrent_requests": 0, "max_retries": 0})
        asked = (provider.complete(ask("hi")) for _ in range(streams))
        responses = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 300)
        await provider.close()
    came = [response for response in responses if getattr(response, "text", None) == TOKEN * tokens]
    in_order = [numbers for numbers in heard.values() if numbers == list(range(tokens))]
    return min(len(came), len(in_order), server.most_at_once)


def added(ours: list[Times], bare: list[Times], field: str) -> float:
    """Return what ours takes longer than the bare SDK."""
    first, second = ([getattr(times, field) for times in taken] for taken in (ours, bare))
    return lower_quartile(first) - lower_quartile(second)


def measure(setting: Setting) -> list[Row]:
    """Return all rows, of `size` streams at once and streams of twice as many tokens."""
    rows = []
    for service in SERVICES:
        ours, bare = asyncio.run(side_by_side(service, 2 * setting.size, setting.rounds))
        name = f"{service.name}, over its bare SDK:"
        rows += [
            Row(f"{name} each token", added(ours, bare, "token"), "µs", most=TOKEN_US),
            Row(f"{name} first token", added(ours, bare, "first"), most=FIRST_MS),
        ]
    for service in SERVICES:
        held = asyncio.run(at_once(service, setting.size, tokens=50))
        rows.append(Row(f"{service.name}: streams at once, all whole", held, "streams", least=setting.size))
    return rows
