"""Measure what our layer adds to the SDKs of the services, and how many streams it holds at once.

Every provider with an SDK answers from a server on this machine that speaks its service's protocol, one event per
token. In turns, through the same client and with the same arguments: the provider, with one subscriber to the tokens;
and the bare SDK, the same stream read to the end and its tokens kept. A token's time is from the first to the last,
divided by their number. What counts is the time of the thread that reads, and its lower quartile over the rounds: what
else the machine did at the time only ever adds. Wall-clock time is reported as well. Then so many streams at once,
with the limit off, and none of them may lose a token; and a fresh process that says which SDKs it has imported before
its first call.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from document import ROOT
from harness import Row, Setting, lower_quartile

sys.path[:0] = [str(module) for module in sorted((ROOT / "modules").iterdir())]

from amplifier_core.testing import MockCoordinator  # noqa: E402
from amplifier_kit.llm.client import plain_stream  # noqa: E402
from amplifier_kit.llm.provider import LLMProvider  # noqa: E402
from amplifier_kit.llm.request import LLMCall, read_conversation  # noqa: E402
from amplifier_testing.llm import (  # noqa: E402
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
from amplifier_testing.llm.rig import KEY, ask  # noqa: E402

FIRST_MS = 3.0
TOKEN_US = 20.0
SDKS = ("anthropic", "openai", "google.genai", "ollama", "httpx", "httpx2")
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


# -- the providers, and their SDKs --


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


# -- one stream --


@dataclass(frozen=True)
class Times:
    """Times of one stream: milliseconds to the first token, microseconds per token after it."""

    first: float
    token: float
    first_wall: float
    token_wall: float


def now() -> tuple[float, float]:
    """Return the time of the thread and that of the clock."""
    return time.thread_time(), time.perf_counter()


class Stopwatch:
    """Take the times of a stream: at its start, at its first token and at its last."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._tokens: list[str] = []
        self._first = self._last = (0.0, 0.0)

    def hear(self, event: str, data: dict[str, Any]) -> None:
        """Take a token from an event: the subscriber."""
        self.take(data["text"])

    def take(self, token: str) -> None:
        """Keep a token, and the times of the first and of the last."""
        if not self._tokens:
            self._first = now()
        self._tokens.append(token)
        if len(self._tokens) == self._count:
            self._last = now()

    async def run(self, stream: Callable[[], Awaitable[Any]]) -> Times:
        """Return the times of one stream; raise RuntimeError when tokens are missing."""
        self._tokens = []
        start = now()
        await stream()
        if self._tokens != [TOKEN] * self._count:
            raise RuntimeError(f"{len(self._tokens)} of {self._count} tokens came")
        first = [(self._first[which] - start[which]) * 1e3 for which in (0, 1)]
        token = [(self._last[which] - self._first[which]) * 1e6 / (self._count - 1) for which in (0, 1)]
        return Times(first[0], token[0], first[1], token[1])


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


# -- many at once, and what is imported --


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


async def imports() -> tuple[list[str], list[str]]:
    """Return the SDKs that are imported before the first call and those after it, providers being mounted."""
    coordinator = MockCoordinator()
    with ModelServer() as server:
        providers = []
        for service in SERVICES:
            server.answers(service.wire.reply(Said()), path=service.wire.path)
            providers.append(service.make(server.url, coordinator, {}))
            await coordinator.mount("providers", providers[-1], name=service.name)
            providers[-1].get_info()
        before = [name for name in SDKS if name in sys.modules]
        for provider in providers:
            await provider.complete(ask("hi"))
            await provider.close()
    return before, [name for name in SDKS if name in sys.modules]


def imports_of_a_process() -> int:
    """Return how many SDKs a fresh process has imported before its first call; raise when none are after it."""
    command = [sys.executable, __file__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    before, after = json.loads(done.stdout)
    if set(after) != set(SDKS):
        raise RuntimeError(f"after the first calls only {after} are imported: the check would not see anything")
    return len(before)


# -- the rows --


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
            Row(f"{name} each token, by the clock", added(ours, bare, "token_wall"), "µs"),
            Row(f"{name} first token", added(ours, bare, "first"), most=FIRST_MS),
            Row(f"{name} first token, by the clock", added(ours, bare, "first_wall")),
        ]
    for service in SERVICES:
        held = asyncio.run(at_once(service, setting.size, tokens=50))
        rows.append(Row(f"{service.name}: streams at once, all whole", held, "streams", least=setting.size))
    rows.append(Row("SDKs imported before the first call", imports_of_a_process(), "packages", most=0))
    return rows


if __name__ == "__main__":
    print(json.dumps(asyncio.run(imports())))
