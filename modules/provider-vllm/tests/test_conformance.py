"""The provider does what every provider does, over real HTTP through the official SDK, in both of its ways."""

from __future__ import annotations

from typing import Any, ClassVar

from amplifier_core.llm_errors import ContextLengthError, ProviderUnavailableError, RateLimitError
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_vllm import VLLMChatProvider, VLLMProvider
from amplifier_testing.llm import ChatWire, Reply, ResponsesWire, Said
from amplifier_testing.llm.conformance import ConformanceBase, ProviderConformance
from amplifier_testing.llm.faults import FaultConformance
from amplifier_testing.llm.rig import KEY

_STREAM_ERRORS = {
    "server_error": ProviderUnavailableError,
    "rate_limit_exceeded": RateLimitError,
    "context_length_exceeded": ContextLengthError,
}


class _Responses(ConformanceBase):
    wire = ResponsesWire()

    def make(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> VLLMProvider:
        return VLLMProvider(config, coordinator, base_url=url, api_key=KEY)

    def messages_in(self, body: dict[str, Any]) -> list[Any]:
        return list(body["input"])

    def prefix_in(self, body: dict[str, Any]) -> Any:
        return [body.get("tools"), body.get("instructions")]

    def broken_call(self) -> Reply:
        """Cut the arguments short."""
        return ResponsesWire().stream([ResponsesWire().function("c1", "look", '{"where": "zeb')])


class _Chat(ConformanceBase):
    wire = ChatWire("reasoning")

    def make(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> VLLMChatProvider:
        return VLLMChatProvider(config, coordinator, base_url=url, api_key=KEY)

    def said(self, said: Said) -> Any:
        return ChatWire("reasoning").either(said)

    def messages_in(self, body: dict[str, Any]) -> list[Any]:
        return [message for message in body["messages"] if message["role"] != "system"]

    def prefix_in(self, body: dict[str, Any]) -> Any:
        return [body.get("tools"), [message for message in body["messages"] if message["role"] == "system"]]

    def broken_call(self) -> Reply:
        """Cut the arguments short."""
        whole = self.wire.reply(Said((), calls=(("c1", "look", {"where": "zebra"}),)))
        return Reply.stream([piece for piece in whole.pieces if b"zebra" not in piece])


class TestResponses(_Responses, ProviderConformance):
    """Inherit what every provider does, over Responses."""


class TestResponsesFaults(_Responses, FaultConformance):
    """Inherit how every provider fails, over Responses."""

    stream_errors: ClassVar = _STREAM_ERRORS


class TestChat(_Chat, ProviderConformance):
    """Inherit what every provider does, over chat completions."""


class TestChatFaults(_Chat, FaultConformance):
    """Inherit how every provider fails, over chat completions."""

    stream_errors: ClassVar = _STREAM_ERRORS
