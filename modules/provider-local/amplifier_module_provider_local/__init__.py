"""A model inside the program: llama.cpp in a child process, with any GGUF file."""

from __future__ import annotations

from typing import Any

from amplifier_kit.llm.provider import mount_provider
from amplifier_module_provider_local.config import LocalConfig
from amplifier_module_provider_local.provider import EVENTS, LocalProvider

__all__ = ["CONFIG", "LocalProvider", "mount"]

__amplifier_module_type__ = "provider"

CONFIG = LocalConfig


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider `local`; nothing is loaded before the first request. Raises ConfigError.

    It is mounted even without its engine: then the error of the first request names what to install.
    """
    return await mount_provider(coordinator, LocalProvider(dict(config or {}), coordinator), *EVENTS)
