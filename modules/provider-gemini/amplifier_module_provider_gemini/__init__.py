"""Gemini models, through Google's Gemini API and its official SDK."""

from __future__ import annotations

from typing import Any

from amplifier_kit.llm.provider import mount_keyed_provider
from amplifier_module_provider_gemini.provider import EVENTS, GeminiConfig, GeminiProvider

__all__ = ["CONFIG", "GeminiProvider", "mount"]

__amplifier_module_type__ = "provider"

CONFIG = GeminiConfig


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider `gemini`; without a key, warn and mount nothing. Raises ConfigError."""
    return await mount_keyed_provider(coordinator, config, GeminiProvider, *EVENTS)
