"""The provider does what every provider does, over real HTTP through the official SDK."""

from __future__ import annotations

from typing import Any, ClassVar

from amplifier_core.llm_errors import ContextLengthError, ProviderUnavailableError, RateLimitError
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_chat_completions import ChatCompletionsProvider
from amplifier_testing.llm import ChatWire, Reply, Said
from amplifier_testing.llm.conformance import ConformanceBase, ProviderConformance
from amplifier_testing.llm.faults import FaultConformance
from amplifier_testing.llm.rig import KEY


class _Chat(ConformanceBase):
    wire = ChatWire()

    def make(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> ChatCompletionsProvider:
        return ChatCompletionsProvider(config, coordinator, base_url=url, api_key=KEY)

    def said(self, said: Said) -> Any:
        return ChatWire().either(said)

    def broken_call(self) -> Reply:
        """Cut the arguments short."""
        whole = self.wire.reply(Said((), calls=(("c1", "look", {"where": "zebra"}),)))
        return Reply.stream([piece for piece in whole.pieces if b"zebra" not in piece])

    def messages_in(self, body: dict[str, Any]) -> list[Any]:
        return [message for message in body["messages"] if message["role"] != "system"]

    def prefix_in(self, body: dict[str, Any]) -> Any:
        return [body.get("tools"), [message for message in body["messages"] if message["role"] == "system"]]


class TestProvider(_Chat, ProviderConformance):
    """Inherit what every provider does."""


class TestFaults(_Chat, FaultConformance):
    """Inherit how every provider fails."""

    stream_errors: ClassVar = {
        "server_error": ProviderUnavailableError,
        "unavailable_error": ProviderUnavailableError,
        "rate_limit_exceeded": RateLimitError,
        "exceed_context_size_error": ContextLengthError,
    }


class TestPricedProvider(_Chat, ProviderConformance):
    """Inherit it once more for a service whose prices are known, with thinking under its other name."""

    wire = ChatWire("reasoning")
    priced_model = "deepseek-chat"

    def make(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> ChatCompletionsProvider:
        named = {"name": "deepseek", "price_list": "deepseek", **config}
        return ChatCompletionsProvider(named, coordinator, base_url=url, api_key=KEY)
