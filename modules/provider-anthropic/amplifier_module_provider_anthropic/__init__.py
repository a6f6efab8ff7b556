"""Claude models, through Anthropic's Messages API and its official SDK."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_kit.llm import env_or_config, mount_provider
from amplifier_module_provider_anthropic.config import AnthropicConfig
from amplifier_module_provider_anthropic.provider import EVENTS, AnthropicProvider

__all__ = ["CONFIG", "AnthropicProvider", "mount"]

__amplifier_module_type__ = "provider"

CONFIG = AnthropicConfig

logger = logging.getLogger(__name__)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider `anthropic`; without a key, warn and mount nothing.

    Raises ValueError for a config value that cannot be used.
    """
    config = dict(config or {})
    key = env_or_config(config, "api_key", AnthropicProvider.key_names)
    if key is None:
        logger.warning("provider-anthropic: no key; set ANTHROPIC_API_KEY or `api_key`, then it can be mounted")
        return None
    return await mount_provider(coordinator, AnthropicProvider(config, coordinator, api_key=key), *EVENTS)
