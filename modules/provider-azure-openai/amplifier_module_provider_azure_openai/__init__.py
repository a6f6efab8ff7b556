"""OpenAI's models on Azure, through the Responses API and the Azure client of the official SDK."""

from __future__ import annotations

import logging
from typing import Any, Final

from amplifier_core.events import CONTEXT_COMPACTION, CONTEXT_POST_COMPACT, CONTEXT_PRE_COMPACT
from amplifier_kit.llm.provider import mount_provider
from amplifier_kit.llm.responses.provider import RESPONSES_EVENTS
from amplifier_module_provider_azure_openai.config import AzureConfig, AzureResource
from amplifier_module_provider_azure_openai.provider import AzureOpenAIProvider

__all__ = ["CONFIG", "AzureOpenAIProvider", "mount"]

__amplifier_module_type__ = "provider"

CONFIG = AzureConfig

logger = logging.getLogger(__name__)

_COMPACTIONS: Final = (CONTEXT_COMPACTION, CONTEXT_PRE_COMPACT, CONTEXT_POST_COMPACT)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider `azure-openai`; without an address or a way to sign in, warn and mount nothing.

    Raises ValueError for an invalid config.
    """
    config = dict(config or {})
    azure = AzureResource.find(config)
    if azure.missing:
        logger.warning("provider-azure-openai is not mounted: %s", azure.missing)
        return None
    provider = AzureOpenAIProvider(config, coordinator, azure=azure)
    close = await mount_provider(coordinator, provider, *RESPONSES_EVENTS)

    def drop_chain(event: str, data: dict[str, Any]) -> None:
        provider.drop_chain()

    leave = [
        coordinator.hooks.on(event, drop_chain, name=f"{provider.name}-chain-{event.rpartition(':')[2]}")
        for event in _COMPACTIONS
    ]

    async def cleanup() -> None:
        for unregister in leave:
            unregister()
        await close()

    return cleanup
