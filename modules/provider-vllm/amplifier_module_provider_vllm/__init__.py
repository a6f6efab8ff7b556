"""Models of a vLLM server, through its Responses API or its chat completions."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_kit.llm.client import NO_KEY
from amplifier_kit.llm.config import env_or_config
from amplifier_kit.llm.provider import LLMProvider, mount_provider
from amplifier_module_provider_vllm.config import KEY_NAMES, URL_NAMES, VLLMConfig
from amplifier_module_provider_vllm.provider import VLLMChatProvider, VLLMProvider

__all__ = ["CONFIG", "VLLMChatProvider", "VLLMProvider", "mount"]

__amplifier_module_type__ = "provider"

CONFIG = VLLMConfig

logger = logging.getLogger(__name__)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider `vllm`; without an address, warn and mount nothing. Raises ConfigError."""
    config = dict(config or {})
    base_url = env_or_config(config, "base_url", URL_NAMES)
    if base_url is None:
        logger.warning("provider-vllm is not mounted: it has no server; set VLLM_BASE_URL or `base_url`")
        return None
    key = env_or_config(config, "api_key", KEY_NAMES)
    kind = VLLMChatProvider if env_or_config(config, "api") == "chat" else VLLMProvider
    provider: LLMProvider = kind(config, coordinator, base_url=base_url, api_key=None if key == NO_KEY else key)
    return await mount_provider(coordinator, provider)
