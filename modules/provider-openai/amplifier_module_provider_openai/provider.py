"""The provider: its client, and what a wizard asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_core import ConfigField
from amplifier_kit.llm import env_or_config, http_client, import_in_thread
from amplifier_kit.llm.responses import ResponsesProvider
from amplifier_module_provider_openai.config import OpenAIConfig

__all__ = ["OpenAIProvider"]

_BASE_URL: Final = "https://api.openai.com/v1"


class OpenAIProvider(ResponsesProvider):
    """Answer through OpenAI's Responses API."""

    id = "openai"
    display_name = "OpenAI"
    vendor = "openai"
    key_names = ("OPENAI_API_KEY",)
    config_model = OpenAIConfig
    settings: OpenAIConfig

    def __init__(self, config: Mapping[str, Any], coordinator: Any = None, *, api_key: str) -> None:
        """Read the config; raises ConfigError, which names each wrong value."""
        base_url = env_or_config(config, "base_url", ("OPENAI_BASE_URL",)) or _BASE_URL
        super().__init__(config, coordinator, api_key=api_key, base_url=base_url)

    async def connect(self) -> Any:
        """Return an SDK client that does not retry by itself."""
        openai = await import_in_thread("openai")
        assert self.base_url is not None
        http = await http_client(self.base_url, timeout=self.settings.timeout, idle=self.settings.stream_idle_timeout)
        return openai.AsyncOpenAI(
            api_key=self.api_key,
            base_url=self.base_url,
            max_retries=0,
            timeout=http.timeout,
            http_client=http,
        )

    def config_fields(self) -> list[ConfigField]:
        """Return what a wizard asks for."""
        return [
            ConfigField(
                id="api_key",
                display_name="API key",
                field_type="secret",
                prompt="Enter your OpenAI API key",
                env_var="OPENAI_API_KEY",
            ),
            ConfigField(
                id="base_url",
                display_name="Base URL",
                prompt="Address of the service",
                env_var="OPENAI_BASE_URL",
                required=False,
                default=_BASE_URL,
            ),
        ]
