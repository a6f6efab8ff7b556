"""Models behind any server that speaks chat completions: llama.cpp, LM Studio, and many services."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_kit.llm.provider import mount_provider
from amplifier_module_provider_chat_completions.provider import (
    ChatCompletionsConfig,
    ChatCompletionsProvider,
    find_server,
)

__all__ = ["CONFIG", "ChatCompletionsProvider", "mount"]

__amplifier_module_type__ = "provider"

CONFIG = ChatCompletionsConfig

logger = logging.getLogger(__name__)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount a provider under its `name`; without an address, warn and mount nothing.

    Raises ValueError for an invalid config.
    """
    config = dict(config or {})
    server = find_server(config)
    if server is None:
        logger.warning(
            "provider-chat-completions is not mounted: it has no server; set CHAT_COMPLETIONS_BASE_URL or `base_url`"
        )
        return None
    provider = ChatCompletionsProvider(config, coordinator, base_url=server.base_url, api_key=server.api_key)
    return await mount_provider(coordinator, provider)
