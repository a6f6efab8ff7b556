"""Subclasses of the published provider construct ours as they construct theirs."""

from __future__ import annotations

from typing import Any

from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_openai import OpenAIProvider


class Azure(OpenAIProvider):
    """A provider whose client knows another way to log in."""

    def __init__(self, config: dict[str, Any], coordinator: Any, client: object) -> None:
        super().__init__(api_key=None, config=config, coordinator=coordinator, client=client)
        self.priority = 50


async def test_a_client_of_the_subclass_is_used() -> None:
    """The constructor takes key, config, coordinator and client by name; the client is used as it is."""
    coordinator, client = MockCoordinator(), object()
    provider = Azure({"default_model": "m"}, coordinator, client)
    assert provider.settings.default_model == "m"
    assert provider.coordinator is coordinator
    assert await provider.connect() is client


def test_the_published_order_is_understood() -> None:
    """Positional arguments may be key, config and coordinator, or config and coordinator as ours are."""
    coordinator = MockCoordinator()
    for provider in (
        OpenAIProvider("k", {"default_model": "m"}, coordinator),
        OpenAIProvider({"default_model": "m"}, coordinator, api_key="k"),
        OpenAIProvider(None, {"default_model": "m"}, coordinator, api_key="k"),
    ):
        assert (provider.api_key, provider.settings.default_model) == ("k", "m")
        assert provider.coordinator is coordinator
