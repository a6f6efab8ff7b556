"""OpenAI's models, through the Responses API and its official SDK."""

from __future__ import annotations

from typing import Any

from amplifier_kit.llm.provider import mount_keyed_provider
from amplifier_kit.llm.responses.provider import RESPONSES_EVENTS
from amplifier_module_provider_openai.provider import OpenAIConfig, OpenAIProvider

__all__ = ["CONFIG", "OpenAIProvider", "mount"]

__amplifier_module_type__ = "provider"

CONFIG = OpenAIConfig


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider `openai`; without a key, warn and mount nothing. Raises ConfigError."""
    return await mount_keyed_provider(coordinator, config, OpenAIProvider, *RESPONSES_EVENTS)
