"""The provider: its config and its client. The Responses API is in `amplifier_kit.llm.responses`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from amplifier_core import ConfigField
from amplifier_kit.llm.client import http_client, import_in_thread
from amplifier_kit.llm.config import Name, env_or_config
from amplifier_kit.llm.provider import key_field, url_field
from amplifier_kit.llm.responses.provider import ResponsesProvider
from amplifier_kit.llm.responses.request import ResponsesConfig, Retention

_BASE_URL: Final = "https://api.openai.com/v1"


class OpenAIConfig(ResponsesConfig):
    """The config keys of the provider."""

    api_key: Name | None = Field(None, repr=False, description="The key; OPENAI_API_KEY by default.")
    base_url: Name | None = Field(
        None, description="Address of the service, with `/v1`; OPENAI_BASE_URL by default, else OpenAI's."
    )
    default_model: Name = Field("gpt-5.5", description="The model, unless a request names another.")
    prompt_cache_retention: Retention | None = Field(
        "24h", description="How long prompt caches are kept, for models that offer it; null for the service's default."
    )


class OpenAIProvider(ResponsesProvider):
    """Answer through OpenAI's Responses API."""

    id = "openai"
    display_name = "OpenAI"
    vendor = "openai"
    key_names = ("OPENAI_API_KEY",)
    config_model = OpenAIConfig
    settings: OpenAIConfig

    def __init__(
        self,
        config: Mapping[str, Any] | str | None = None,
        coordinator: Any = None,
        *more: Any,
        api_key: str | None = None,
        client: Any = None,
    ) -> None:
        """Read the config; raises ConfigError, which names each wrong value.

        Subclasses of the published class may give `api_key, config, coordinator` in this order, and an SDK `client` of
        their own, which is used as it is.
        """
        if isinstance(config, str) or more or (config is None and isinstance(coordinator, Mapping)):
            api_key = config if isinstance(config, str) else api_key
            config, coordinator = coordinator, next(iter(more), None)
        config = config if isinstance(config, Mapping) else {}
        base_url = env_or_config(config, "base_url", ("OPENAI_BASE_URL",)) or _BASE_URL
        super().__init__(config, coordinator, api_key=api_key or "", base_url=base_url)
        self._own_client = client

    async def connect(self) -> Any:
        """Return an SDK client that does not retry by itself, or the one that a subclass gave."""
        if self._own_client is not None:
            return self._own_client
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
        """Return the fields that a setup wizard asks for."""
        return [
            key_field("Enter your OpenAI API key", "OPENAI_API_KEY"),
            url_field("Address of the service", "OPENAI_BASE_URL", _BASE_URL),
        ]
