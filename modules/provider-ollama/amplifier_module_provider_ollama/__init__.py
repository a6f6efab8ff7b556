"""Models on your own machine, through Ollama and its official SDK."""

from __future__ import annotations

from typing import Any

from amplifier_kit.llm.provider import mount_provider
from amplifier_module_provider_ollama.config import OllamaConfig
from amplifier_module_provider_ollama.provider import EVENTS, OllamaProvider

__all__ = ["CONFIG", "OllamaProvider", "mount"]

__amplifier_module_type__ = "provider"

CONFIG = OllamaConfig


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider `ollama`; no server is contacted before the first call. Raises ConfigError."""
    return await mount_provider(coordinator, OllamaProvider(dict(config or {}), coordinator), *EVENTS)
