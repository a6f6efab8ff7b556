"""The provider does what every provider does, over real HTTP through the official SDK."""

from __future__ import annotations

from typing import Any, ClassVar

from amplifier_core.llm_errors import ProviderUnavailableError, RateLimitError
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_anthropic import AnthropicProvider
from amplifier_testing.llm import AnthropicWire, Reply, Said
from amplifier_testing.llm.conformance import ConformanceBase, ProviderConformance
from amplifier_testing.llm.faults import FaultConformance
from amplifier_testing.llm.rig import KEY


class _Anthropic(ConformanceBase):
    wire = AnthropicWire()
    priced_model = "claude-sonnet-4-5"

    def make(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> AnthropicProvider:
        return AnthropicProvider({"base_url": url, **config}, coordinator, api_key=KEY)

    def messages_in(self, body: dict[str, Any]) -> list[Any]:
        # A mark says where to cache, and is no part of what is cached.
        return [_unmarked(message) for message in body["messages"]]

    def prefix_in(self, body: dict[str, Any]) -> Any:
        return [body.get("tools"), body.get("system")]


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


class TestProvider(_Anthropic, ProviderConformance):
    """Inherit what every provider does."""

    def broken_call(self) -> Reply:
        """Cut the arguments short."""
        whole = self.wire.reply(Said((), calls=(("c1", "look", {"where": "zebra"}),)))
        return Reply.stream([piece for piece in whole.pieces if b"zebra" not in piece])


class TestFaults(_Anthropic, FaultConformance):
    """Inherit how every provider fails."""

    stream_errors: ClassVar = {
        "overloaded_error": ProviderUnavailableError,
        "api_error": ProviderUnavailableError,
        "rate_limit_error": RateLimitError,
    }
