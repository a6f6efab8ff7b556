"""State what every provider does; `provider_module` is the first provider that the module mounts."""

from __future__ import annotations

from typing import Any

import pytest


class ProviderBehaviorTests:
    """Inherit this in the tests of a provider module; nothing here calls a model."""

    @pytest.mark.asyncio
    async def test_mount_succeeds(self, provider_module: Any) -> None:
        """mount() leaves a provider behind."""
        assert provider_module is not None

    @pytest.mark.asyncio
    async def test_get_info_returns_valid_provider_info(self, provider_module: Any) -> None:
        """get_info() names the provider, for programs and for people."""
        from amplifier_core.models import ProviderInfo

        info = provider_module.get_info()
        assert isinstance(info, ProviderInfo), f"get_info() must return ProviderInfo, got {type(info).__name__}"
        assert info.id, "ProviderInfo.id must not be empty"
        assert info.display_name, "ProviderInfo.display_name must not be empty"

    @pytest.mark.asyncio
    async def test_list_models_returns_list(self, provider_module: Any) -> None:
        """list_models() gives a list."""
        models = await provider_module.list_models()
        assert isinstance(models, list), f"list_models() must return a list, got {type(models).__name__}"

    @pytest.mark.asyncio
    async def test_provider_has_name_attribute(self, provider_module: Any) -> None:
        """The name is text that is not empty."""
        assert isinstance(provider_module.name, str), "Provider.name must be a string"
        assert provider_module.name, "Provider.name must not be empty"

    @pytest.mark.asyncio
    async def test_parse_tool_calls_returns_list(self, provider_module: Any) -> None:
        """A response without tool calls still gives a list."""
        from amplifier_core.message_models import ChatResponse, TextBlock

        calls = provider_module.parse_tool_calls(ChatResponse(content=[TextBlock(text="Hello")]))
        assert isinstance(calls, list), f"parse_tool_calls() must return a list, got {type(calls).__name__}"
