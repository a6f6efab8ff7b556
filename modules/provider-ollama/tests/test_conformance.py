"""The provider does what every provider does, over real HTTP through the official SDK."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from amplifier_core.llm_errors import ContextLengthError, ProviderUnavailableError
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_ollama import OllamaProvider
from amplifier_testing.llm import OllamaWire, Reply, Said
from amplifier_testing.llm.conformance import ConformanceBase, MakeRig, ProviderConformance
from amplifier_testing.llm.faults import FaultConformance
from amplifier_testing.llm.rig import KEY, ask


class _Ollama(ConformanceBase):
    wire = OllamaWire()
    without: ClassVar = {
        "test_an_unknown_price_is_not_zero": "A server of one's own costs nothing.",
        "test_a_refusal_is_an_error": "A server of one's own filters nothing.",
    }

    def make(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> OllamaProvider:
        # With a window that is given the server is not asked for it, so every request here is a call.
        return OllamaProvider({"host": url, "num_ctx": 8192, **config}, coordinator, api_key=KEY)

    def messages_in(self, body: dict[str, Any]) -> list[Any]:
        return [message for message in body["messages"] if message["role"] != "system"]

    def prefix_in(self, body: dict[str, Any]) -> Any:
        return [body.get("tools"), [message for message in body["messages"] if message["role"] == "system"]]


class TestProvider(_Ollama, ProviderConformance):
    """Inherit what every provider does."""

    def broken_call(self) -> Reply:
        """Give text that is no JSON in place of the arguments."""
        whole = self.wire.reply(Said((), calls=(("c1", "look", {}),)))
        return Reply.stream([piece.replace(b'"arguments": {}', b'"arguments": "{zebra"') for piece in whole.pieces])

    async def test_thinking_goes_back_signed(self, rig: MakeRig) -> None:
        """Thinking has no signature here; it goes back to Ollama's models, and not to those of others."""
        one = await rig(Said())
        block = {"type": "thinking", "thinking": "Let me see.", "origin": "ollama"}
        text = {"type": "text", "text": "I look."}
        await one.provider.complete(ask("x", {"role": "assistant", "content": [block, text]}, "y"))
        assert one.server.bodies[-1]["messages"][1] == {
            "role": "assistant",
            "content": "I look.",
            "thinking": "Let me see.",
        }
        foreign = {**block, "origin": "elsewhere", "signature": "s"}
        await one.provider.complete(ask("x", {"role": "assistant", "content": [foreign, text]}, "y"))
        assert "Let me see." not in json.dumps(one.server.bodies[-1])

    async def test_session_id_only_when_asked(  # type: ignore[override]  # pytest passes the fixture
        self, rig: MakeRig, caplog: pytest.LogCaptureFixture
    ) -> None:
        """There is no field for the session's id: it is never sent, and a wish for it is answered by a warning."""
        one = await rig(Said(), send_session_id=True)
        await one.provider.complete(ask())
        heard = one.server.requests[-1]
        assert str(one.coordinator.session_id) not in heard.body.decode() + str(heard.headers)
        assert "send_session_id" in caplog.text


class TestFaults(_Ollama, FaultConformance):
    """Inherit how every provider fails."""

    stream_errors: ClassVar = {
        "an error was encountered while running the model": ProviderUnavailableError,
        "the input exceeds the context length": ContextLengthError,
    }
