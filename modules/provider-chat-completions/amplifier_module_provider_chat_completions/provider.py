"""The provider: its name and its server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amplifier_core import ConfigField
from amplifier_kit.llm import env_or_config
from amplifier_kit.llm.chat import ChatProvider
from amplifier_module_provider_chat_completions.config import (
    DEFAULT_MODEL,
    DEFAULT_NAME,
    KEY_NAMES,
    ChatCompletionsConfig,
)

__all__ = ["ChatCompletionsProvider"]


class ChatCompletionsProvider(ChatProvider):
    """Answer through a server that speaks chat completions."""

    id = DEFAULT_NAME
    display_name = "Chat completions"
    key_names = KEY_NAMES
    config_model = ChatCompletionsConfig
    settings: ChatCompletionsConfig

    def __init__(
        self, config: Mapping[str, Any], coordinator: Any = None, *, base_url: str, api_key: str | None = None
    ) -> None:
        """Read the config; raises ConfigError, which names each wrong value."""
        name = env_or_config(config, "name")
        super().__init__(config, coordinator, base_url=base_url, api_key=api_key, name=name)

    def config_fields(self) -> list[ConfigField]:
        """Return what a wizard asks for."""
        return [
            ConfigField(
                id="base_url",
                display_name="Base URL",
                prompt="Address of the server, as http://localhost:8080/v1",
                env_var="CHAT_COMPLETIONS_BASE_URL",
            ),
            ConfigField(
                id="api_key",
                display_name="API key",
                field_type="secret",
                prompt="Key of the server, if it wants one",
                env_var="CHAT_COMPLETIONS_API_KEY",
                required=False,
            ),
            ConfigField(
                id="default_model",
                display_name="Model",
                prompt="Name of the model",
                required=False,
                default=DEFAULT_MODEL,
            ),
        ]
