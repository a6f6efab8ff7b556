"""Claude models, through Anthropic's Messages API and its official SDK."""

from __future__ import annotations

from typing import Any

from amplifier_kit.llm.provider import mount_keyed_provider
from amplifier_module_provider_anthropic.config import AnthropicConfig
from amplifier_module_provider_anthropic.provider import EVENTS, AnthropicProvider

__all__ = ["CONFIG", "AnthropicProvider", "mount"]

__amplifier_module_type__ = "provider"

CONFIG = AnthropicConfig


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider `anthropic`; without a key, warn and mount nothing. Raises ConfigError."""
    return await mount_keyed_provider(coordinator, config, AnthropicProvider, *EVENTS)
