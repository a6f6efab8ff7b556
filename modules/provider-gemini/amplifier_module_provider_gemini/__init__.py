"""Gemini models, through Google's Gemini API and its official SDK."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_kit.llm import env_or_config, mount_provider
from amplifier_module_provider_gemini.config import GeminiConfig
from amplifier_module_provider_gemini.provider import EVENTS, GeminiProvider

__all__ = ["CONFIG", "GeminiProvider", "mount"]

__amplifier_module_type__ = "provider"

CONFIG = GeminiConfig

logger = logging.getLogger(__name__)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider `gemini`; without a key, warn and mount nothing.

    Raises ValueError for a config value that cannot be used.
    """
    config = dict(config or {})
    key = env_or_config(config, "api_key", GeminiProvider.key_names)
    if key is None:
        logger.warning(
            "provider-gemini: no key; set GOOGLE_API_KEY, GEMINI_API_KEY or `api_key`, then it can be mounted"
        )
        return None
    return await mount_provider(coordinator, GeminiProvider(config, coordinator, api_key=key), *EVENTS)
