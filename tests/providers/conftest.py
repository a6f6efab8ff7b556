"""A session with a provider's SDK, over real HTTP, against a server as strict as the service about histories."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_core.testing import wait_for
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import Options, prepare
from amplifier_foundation.sessions.resume import load_session, prepare_saved
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_testing.llm import (
    AnthropicWire,
    ChatWire,
    GeminiWire,
    Heard,
    ModelServer,
    OllamaWire,
    Reply,
    ResponsesWire,
    Said,
    WireServer,
)
from amplifier_testing.llm.pairs import broken_pairs, pairs_in
from amplifier_testing.llm.rig import KEY

_BUNDLE: dict[str, Any] = {
    "bundle": {"name": "wires"},
    "includes": [{"bundle": "amplifier:behaviors/logging"}],
    "session": {
        "orchestrator": {"module": "loop-streaming", "config": {"extended_thinking": True}},
        "context": {"module": "context-simple"},
    },
    "tools": [{"module": "tool-filesystem"}, {"module": "tool-search"}],
    "hooks": [{"module": "hooks-logging", "config": {"exclude_events": []}}],
}
#: Pieces and ends of blocks, which `Lab.blocks` tells; and what Gemini says once more, as its page tells.
_TOLD_APART = ("llm:stream_block_delta", "llm:stream_block_end", "thinking:final")
_QUICK = {"min_retry_delay": 0, "max_retries": 1, "timeout": 20, "stream_idle_timeout": 20, "context_window": 131_072}
#: What the machine of the test may have set, and a session would take from it.
_FOREIGN = ("_API_KEY", "_BASE_URL", "_PROXY", "_proxy", "OLLAMA_HOST", "AZURE_OPENAI_", "AMPLIFIER_")


@dataclass(frozen=True)
class Service:
    """A provider, or one of its ways, and the protocol of its service."""

    name: str
    module: str
    wire: WireServer
    #: The key of the address in the config, and what follows the server's address in it.
    address: str
    path: str = ""
    more: tuple[tuple[str, Any], ...] = ()

    @property
    def signature(self) -> str:
        """Return what this service, and no other, signs its thinking with."""
        return base64.b64encode(f"signed by {self.name}".encode()).decode()

    def is_foreign(self, other: Service, body: bytes) -> bool:
        """Tell whether a request to this service holds what only another one can read."""
        return other != self and other.signature.encode() in body

    def entry(self, url: str) -> dict[str, Any]:
        """Return the provider as a bundle names it."""
        config = {self.address: f"{url}{self.path}", "api_key": KEY, **_QUICK, **dict(self.more)}
        return {"module": self.module, "id": self.name, "config": {**config, "id": self.name}}


SERVICES = (
    Service("anthropic", "provider-anthropic", AnthropicWire(), "base_url"),
    Service("openai", "provider-openai", ResponsesWire(), "base_url", "/v1"),
    Service("azure-openai", "provider-azure-openai", ResponsesWire(), "azure_endpoint"),
    Service("chat-completions", "provider-chat-completions", ChatWire(), "base_url", "/v1"),
    Service("vllm", "provider-vllm", ResponsesWire(), "base_url", "/v1"),
    Service("vllm-chat", "provider-vllm", ChatWire("reasoning"), "base_url", "/v1", (("api", "chat"),)),
    Service("gemini", "provider-gemini", GeminiWire(), "base_url"),
    Service("ollama", "provider-ollama", OllamaWire(), "host", more=(("num_ctx", 131_072),)),
)


class Strict:
    """Answer by a script; refuse a history with a broken pair, or with what another service has signed."""

    def __init__(self, service: Service, url: str, server: ModelServer) -> None:
        self.service = service
        self.url = url
        self.server = server
        #: What was refused, and why.
        self.refused: list[str] = []
        #: How many calls with their results each accepted request held.
        self.pairs: list[int] = []
        self._script: list[tuple[Reply, Said | None]] = []
        # What the service keeps itself, by the id to go on from: the items of the Responses API.
        self._kept: dict[str, list[dict[str, Any]]] = {}

    def says(self, *said: Said) -> None:
        """Let the model say this next, signed by its service."""
        signed = [replace(one, signature=self.service.signature) for one in said]
        self._script += [(self.service.wire.reply(one), one) for one in signed]

    def replies(self, *replies: Reply) -> None:
        """Let these be the next replies, as they are."""
        self._script += [(reply, None) for reply in replies]

    def answer(self, heard: Heard) -> Reply:
        """Answer one request."""
        body = dict(heard.json)
        problems = [f"signed by {one.name}" for one in SERVICES if self.service.is_foreign(one, heard.body)]
        if before := body.get("previous_response_id"):
            problems += [] if before in self._kept else [f"no response {before}"]
            body["input"] = [*self._kept.get(before, ()), *body["input"]]
        problems += broken_pairs(body)
        problems += [] if self._script else ["nothing more is in the script"]
        if problems:
            self.refused += problems
            return self.service.wire.refusal(400, "invalid_request_error", "; ".join(problems))
        self.pairs.append(pairs_in(body))
        reply, said = self._script.pop(0)
        return self._keep(reply, said, body["input"]) if said is not None and "input" in body else reply

    def _keep(self, reply: Reply, said: Said, items: list[dict[str, Any]]) -> Reply:
        """Keep a response under an id of its own, and send it with that."""
        name = f"resp_{self.service.name}_{len(self._kept)}"
        self._kept[name] = [*items, *({"type": "function_call", "call_id": call_id} for call_id, _, _ in said.calls)]
        return replace(reply, pieces=tuple(piece.replace(b"resp_test", name.encode()) for piece in reply.pieces))


class Lab:
    """A project with two files, a home, and the servers of some services."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "home")
        self.project = folder / "project"
        self.project.mkdir()
        self.home.path.mkdir()
        for name in ("a", "b"):
            (self.project / f"{name}.txt").write_text(f"the text of {name}\n", encoding="utf-8")
        self._bundle = folder / "bundle.yaml"
        self._environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "user")}
        #: The names of all events, in their order, with their payloads.
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.folder = folder

    @asynccontextmanager
    async def session(self, *servers: Strict, resumed: bool = False) -> AsyncIterator[SessionRuntime]:
        """Run a session with providers for these servers, the first of them first; or go on with the one of before."""
        entries = [strict.service.entry(strict.url) for strict in servers]
        bundle = {**_BUNDLE, "providers": entries}
        self._bundle.write_text(yaml.safe_dump(bundle, sort_keys=False), encoding="utf-8")
        options = Options(self.home, self.project, bundle=str(self._bundle), offline=True, environ=self._environ)
        saved = load_session(self.folder) if resumed else None
        prepared = await prepare(options) if saved is None else await prepare_saved(saved, options)
        runtime = SessionRuntime(prepared, saved=saved, environ=self._environ)
        self.folder = runtime.folder
        async with runtime:
            runtime.session.coordinator.hooks.register("*", self._hear, priority=-1000)
            yield runtime

    def _hear(self, event: str, data: dict[str, Any]) -> None:
        self.heard.append((event, data))

    async def cancelled(self, runtime: SessionRuntime, prompt: str) -> None:
        """Begin a turn, and stop it at once when the first piece of its text is there, as the program does."""
        before = len(self.heard)
        turn = asyncio.create_task(runtime.execute(prompt))
        begun = "llm:stream_block_delta"
        assert await wait_for(lambda: any(name == begun for name, _ in self.heard[before:]), timeout=60)
        runtime.session.coordinator.cancellation.request_immediate()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        runtime.session.coordinator.cancellation.reset()

    def story(self) -> list[str]:
        """Return the events in a form that does not depend on which of two tools, or loop and provider, was quicker."""
        return _story(self.heard)

    def blocks(self) -> list[tuple[str, str, str]]:
        """Return what was streamed: each block's kind and text, and how it came to an end."""
        found: dict[tuple[str, int], list[str]] = {}
        for name, data in self.heard:
            if name == "llm:stream_block_start":
                found[data["request_id"], data["block_index"]] = [data["block_type"], "", "open"]
            elif name == "llm:stream_block_delta":
                found[data["request_id"], data["block_index"]][1] += data["text"]
            elif name == "llm:stream_block_end":
                found[data["request_id"], data["block_index"]][2] = "whole"
            elif name == "llm:stream_aborted":
                for (request_id, _), block in found.items():
                    if request_id == data["request_id"] and block[2] == "open":
                        block[2] = "aborted"
        return [(kind, text, end) for kind, text, end in found.values()]

    def log(self) -> list[dict[str, Any]]:
        """Return the log of the session."""
        return _lines(self.folder / "events.jsonl")

    def logged(self) -> list[str]:
        """Return the story as the log tells it."""
        return _story([(record["event"], record.get("data") or {}) for record in self.log()])

    def transcript(self) -> list[dict[str, Any]]:
        """Return the messages of the session."""
        return _lines(self.folder / "transcript.jsonl")

    def shapes(self) -> list[tuple[str, ...]]:
        """Return the messages as their roles, what they are made of, and the tools that they call or answer for."""
        return [_shape(message) for message in self.transcript()]


def _shape(message: dict[str, Any]) -> tuple[str, ...]:
    content = message["content"]
    parts = ["words"] if isinstance(content, str) else [block["type"] for block in content]
    calls = [f"calls {call['tool']}" for call in message.get("tool_calls") or ()]
    answers = [f"answers {message['name']}"] if message["role"] == "tool" else []
    known = {"role", "content", "tool_calls", "name", "tool_call_id", "metadata"}
    return (message["role"], *parts, *calls, *answers, *sorted(set(message) - known))


def _story(heard: list[tuple[str, dict[str, Any]]]) -> list[str]:
    told: list[str] = []
    tools: list[str] = []
    noticed: list[str] = []
    for name, data in heard:
        if name.startswith(("tool:", "approval:", "artifact:")):
            tools.append(f"{name} {data.get('tool_name', '')}".strip())
            continue
        told += sorted(tools)
        tools = []
        if name == "cancel:requested":
            # The loop notices a cancellation while the provider still breaks off.
            noticed.append(name)
            continue
        if name == "prompt:complete":
            told += noticed
            noticed = []
        if name == "llm:stream_block_start":
            told.append(f"{name} {data['block_type']}")
        elif name not in _TOLD_APART:
            told.append(name)
    return told


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing of the machine's own settings in."""
    for name in list(os.environ):
        if any(part in name for part in _FOREIGN):
            monkeypatch.delenv(name)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Give a project and a home of their own."""
    return Lab(tmp_path)


@pytest.fixture
def serve() -> Iterator[Callable[[Service], Strict]]:
    """Give `serve(service)`: a strict server of it."""
    running: list[ModelServer] = []

    def start(service: Service) -> Strict:
        server = ModelServer()
        running.append(server)
        server.__enter__()
        strict = Strict(service, server.url, server)
        server.answers(strict.answer)
        return strict

    yield start
    for server in running:
        server.__exit__()


@pytest.fixture
def services() -> tuple[Service, ...]:
    """Give all services, in their order."""
    return SERVICES


@pytest.fixture(params=SERVICES, ids=lambda service: service.name)
def service(request: pytest.FixtureRequest) -> Service:
    """Give each service in turn."""
    chosen: Service = request.param
    return chosen


@pytest.fixture
def strict(service: Service, serve: Callable[[Service], Strict]) -> Strict:
    """Give a strict server of the service."""
    return serve(service)
