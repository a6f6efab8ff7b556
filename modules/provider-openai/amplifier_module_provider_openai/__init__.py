"""OpenAI's models, through the Responses API and its official SDK."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_kit.llm import env_or_config, mount_provider
from amplifier_kit.llm.responses import RESPONSES_EVENTS
from amplifier_module_provider_openai.config import OpenAIConfig
from amplifier_module_provider_openai.provider import OpenAIProvider

__all__ = ["CONFIG", "OpenAIProvider", "mount"]

__amplifier_module_type__ = "provider"

CONFIG = OpenAIConfig

logger = logging.getLogger(__name__)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider `openai`; without a key, warn and mount nothing.

    Raises ValueError for a config value that cannot be used.
    """
    config = dict(config or {})
    key = env_or_config(config, "api_key", OpenAIProvider.key_names)
    if key is None:
        logger.warning("provider-openai: no key; set OPENAI_API_KEY or `api_key`, then it can be mounted")
        return None
    return await mount_provider(coordinator, OpenAIProvider(config, coordinator, api_key=key), *RESPONSES_EVENTS)
