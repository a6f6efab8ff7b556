"""The provider does what every provider does, over real HTTP through the official SDK."""

from __future__ import annotations

from typing import Any

from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_openai import OpenAIProvider
from amplifier_testing.llm.conformance import ConformanceBase, ProviderConformance
from amplifier_testing.llm.faults import FaultConformance
from amplifier_testing.llm.responses_suites import (
    ResponsesAnswers,
    ResponsesBase,
    ResponsesChained,
    ResponsesFaults,
)
from amplifier_testing.llm.rig import KEY


class _OpenAI(ResponsesBase, ConformanceBase):
    priced_model = "gpt-5.5"

    def make(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> OpenAIProvider:
        settings = {"base_url": url, "enable_response_chaining": self.chaining, **config}
        return OpenAIProvider(settings, coordinator, api_key=KEY)


class TestProvider(ResponsesAnswers, _OpenAI, ProviderConformance):
    """Inherit what every provider does, sending everything with each request."""


class TestChained(ResponsesChained, _OpenAI, ProviderConformance):
    """Inherit what every provider does, going on from responses that the service keeps."""


class TestFaults(ResponsesFaults, _OpenAI, FaultConformance):
    """Inherit how every provider fails."""
