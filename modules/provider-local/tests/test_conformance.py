"""The provider does what every provider does; here its engine is a server that speaks as the real one does."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from amplifier_core.llm_errors import ProviderUnavailableError
from amplifier_core.testing import MockCoordinator
from amplifier_kit.llm.client import http_client
from amplifier_module_provider_local import LocalProvider
from amplifier_testing.llm import Reply, Said
from amplifier_testing.llm.conformance import ConformanceBase, MakeRig, ProviderConformance
from amplifier_testing.llm.faults import FaultConformance
from amplifier_testing.llm.reply import sse
from amplifier_testing.llm.rig import KEY, ask


class LlamaWire:
    """Speak as llama.cpp does: chat completions, with the calls as text in the form that the grammar gives them."""

    path = "/v1/chat/completions"
    #: The role, and the first piece of text.
    first_text = 2

    def reply(self, said: Said) -> Reply:
        """Return a streamed answer."""
        events = [_chunk(said, {"role": "assistant", "content": None})]
        events += [_chunk(said, {"reasoning_content": piece}) for piece in said.thinking]
        events += [_chunk(said, {"content": piece}) for piece in said.text]
        for _, name, arguments in said.calls:
            written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
            call = f"<tool_call>\n{written}\n</tool_call>\n"
            events += [_chunk(said, {"content": call[at : at + 5]}) for at in range(0, len(call), 5)]
        events.append(_chunk(said, {}, "length" if said.reason == "length" else "stop"))
        usage = {
            "prompt_tokens": said.prompt_tokens,
            "completion_tokens": said.output_tokens,
            "prompt_tokens_details": {"cached_tokens": said.cache_read},
        }
        events += [sse({"choices": [], "usage": usage}), sse("[DONE]")]
        return Reply.stream(events).with_headers(**said.headers)

    def refusal(self, status: int, kind: str, message: str, **headers: str) -> Reply:
        """Return an error of the engine."""
        return Reply.error(status, {"error": {"code": status, "type": kind, "message": message}}, **headers)

    def error_event(self, kind: str, message: str) -> bytes:
        """Return an error in the middle of a stream."""
        return sse({"error": {"code": 500, "type": kind, "message": message}})

    def ping(self) -> bytes:
        """Return what keeps a connection alive and says nothing."""
        return b":\n\n"

    def garbage(self) -> bytes:
        """Return an event whose JSON is broken."""
        return sse('{"choices": [{"delta": {')

    def models(self, *names: str) -> Reply:
        """Return a list of models, which nobody asks for."""
        return Reply.json({"data": [{"id": name} for name in names]})


def _chunk(said: Said, delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return sse({"object": "chat.completion.chunk", "model": said.model or "smollm2-135m", "choices": [choice]})


class _Remote:
    """Be a lease whose engine is somewhere else."""

    def __init__(self, http: Any) -> None:
        self.http = http

    async def release(self) -> None:
        await self.http.aclose()


class _Served(LocalProvider):
    def __init__(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> None:
        super().__init__({"lean": False, "max_concurrent_requests": 5, **config}, coordinator)
        self.url = url
        self.account = (self.name, url, 0)
        self.redactor.add_live_value(KEY)
        self.endpoint = type(self.endpoint)(self.name, self.wire, url, None, 1.0, self.redactor.scrub_text)

    async def connect(self) -> Any:
        times = {"timeout": self.settings.timeout, "idle": self.settings.stream_idle_timeout}
        http = await http_client(self.url, **times, headers={"authorization": f"Bearer {KEY}"})
        http.base_url = self.url
        return _Remote(http)

    @asynccontextmanager
    async def asking(self, client: Any, model: str) -> Any:
        yield client.http


class _Local(ConformanceBase):
    wire = LlamaWire()
    keeps_call_ids = False
    without: ClassVar = {
        "test_thinking_goes_back_signed": "The engine signs nothing: what a model thought is shown and not sent back.",
        "test_an_unknown_price_is_not_zero": "The engine runs on this machine and costs nothing.",
        "test_a_refusal_is_an_error": "The engine has no filter that could stop an answer.",
        "test_models": "Models are files, so the engine is not asked for them: test_provider.py lists them.",
        "test_listing_models_fails_the_same_way": "Models are files, so no request can be refused.",
    }

    def make(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> LocalProvider:
        return _Served(url, config, coordinator)

    def messages_in(self, body: dict[str, Any]) -> list[Any]:
        return [message for message in body["messages"] if message["role"] != "system"]

    def prefix_in(self, body: dict[str, Any]) -> Any:
        return [message for message in body["messages"] if message["role"] == "system"]


class TestProvider(_Local, ProviderConformance):
    """Inherit what every provider does."""

    def broken_call(self) -> Reply:
        """Give arguments that are no JSON."""
        said = Said(('<tool_call>\n{"name": "look", "arguments": {"where": zebra}}\n</tool_call>',))
        return self.wire.reply(said)

    async def test_images(self, rig: MakeRig) -> None:
        """A model without vision reads that there is an image."""
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
        one = await rig(Said())
        await one.provider.complete(ask({"role": "user", "content": [image]}))
        assert one.server.bodies[-1]["messages"][0]["content"] == "(an image, which this model cannot see)"

    async def test_thinking_that_the_engine_sets_apart(self, rig: MakeRig) -> None:
        """What a model thinks is streamed as thinking and not sent back, since nobody signed it."""
        one = await rig(Said(("Yes.",), ("Hm", "m.")))
        response = await one.provider.complete(ask())
        assert one.streamed() == [("thinking", "Hmm."), ("text", "Yes.")]
        said = {"role": "assistant", "content": [block.model_dump() for block in response.content]}
        await one.provider.complete(ask("x", said, "y"))
        assert one.server.bodies[-1]["messages"][1] == {"role": "assistant", "content": "Yes."}


class TestFaults(_Local, FaultConformance):
    """Inherit how every provider fails."""

    stream_errors: ClassVar = {"server_error": ProviderUnavailableError}
