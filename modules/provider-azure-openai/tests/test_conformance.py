"""The provider does what every provider does, over real HTTP through the official SDK."""

from __future__ import annotations

from typing import Any

from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_azure_openai import AzureOpenAIProvider
from amplifier_testing.llm.conformance import ConformanceBase, ProviderConformance
from amplifier_testing.llm.faults import FaultConformance
from amplifier_testing.llm.responses_suites import (
    ResponsesAnswers,
    ResponsesBase,
    ResponsesChained,
    ResponsesFaults,
)
from amplifier_testing.llm.rig import KEY


class _Azure(ResponsesBase, ConformanceBase):
    priced_model = "gpt-5.4"

    def make(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> AzureOpenAIProvider:
        settings = {"azure_endpoint": url, "api_key": KEY, "enable_response_chaining": self.chaining, **config}
        return AzureOpenAIProvider(settings, coordinator)


class TestProvider(ResponsesAnswers, _Azure, ProviderConformance):
    """Inherit what every provider does, sending everything with each request."""


class TestChained(ResponsesChained, _Azure, ProviderConformance):
    """Inherit what every provider does, going on from responses that the service keeps."""


class TestFaults(ResponsesFaults, _Azure, FaultConformance):
    """Inherit how every provider fails."""
