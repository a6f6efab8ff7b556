"""The provider: its client, and what is known of deployments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from amplifier_core import ConfigField
from amplifier_kit.llm import Answer, LLMCall, Wire, http_client, import_in_thread
from amplifier_kit.llm.responses import RESPONSES, Abilities, ResponsesProvider, abilities_of
from amplifier_module_provider_azure_openai.config import (
    DEFAULT_DEPLOYMENT,
    KEY_NAMES,
    AzureConfig,
    AzureResource,
)
from amplifier_module_provider_azure_openai.identity import token_source

__all__ = ["AzureOpenAIProvider"]


class AzureOpenAIProvider(ResponsesProvider):
    """Answer through the Responses API of a resource on Azure."""

    id = "azure-openai"
    display_name = "Azure OpenAI"
    vendor = "azure"
    key_names = KEY_NAMES
    url_name = "azure_endpoint"
    config_model = AzureConfig
    settings: AzureConfig
    #: A wire of its own, since neither OpenAI nor another cloud can read reasoning that was encrypted here.
    wire: ClassVar[Wire] = replace(RESPONSES, name="azure-openai")

    def __init__(
        self, config: Mapping[str, Any], coordinator: Any = None, *, azure: AzureResource | None = None
    ) -> None:
        """Read the config; raises ValueError for a wrong value, or when something has to be set first."""
        self.azure = azure or AzureResource.find(config)
        if self.azure.missing:
            raise ValueError(self.azure.missing)
        super().__init__(config, coordinator, api_key=self.azure.api_key, base_url=self.azure.address)
        #: The models that deployments turned out to be of.
        self._models: dict[str, str] = {}

    async def connect(self) -> Any:
        """Return an SDK client that does not retry by itself."""
        openai = await import_in_thread("openai")
        assert self.base_url is not None
        signing: dict[str, Any] = {"api_key": self.api_key}
        if self.azure.identity is not None:
            signing = {"azure_ad_token_provider": await token_source(self.azure, self.scrubber.add)}
        http = await http_client(self.base_url, timeout=self.settings.timeout, idle=self.settings.stream_idle_timeout)
        return openai.AsyncAzureOpenAI(
            **signing,
            base_url=self.base_url,
            api_version=self.azure.api_version,
            max_retries=0,
            timeout=http.timeout,
            http_client=http,
        )

    def abilities(self, model: str) -> Abilities:
        """Return what a deployment can do, by the model behind it once that is known."""
        known = self._models.get(model)
        return abilities_of(known) if known is not None else super().abilities(model)

    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Stream one answer, and learn which model is behind the deployment."""
        await super().attempt(client, payload, answer, call)
        if answer.model and not abilities_of(call.model).is_known and abilities_of(answer.model).is_known:
            self._models[call.model] = answer.model

    def talks(self, listed: Any) -> bool:
        """Tell whether a model answers requests in text, by what Azure says of it."""
        said = getattr(listed, "capabilities", None)
        able = said.get("chat_completion") if isinstance(said, dict) else None
        return super().talks(listed) and able is not False

    def price_model(self, call: LLMCall, answer: Answer) -> str:
        """Return the model behind the deployment; a deployment that is paid by the hour has no prices."""
        return super().price_model(call, answer) if self.azure.has_prices else "provisioned"

    def config_fields(self) -> list[ConfigField]:
        """Return what a wizard asks for."""
        return [
            ConfigField(
                id="azure_endpoint",
                display_name="Endpoint",
                prompt="Address of your resource, as https://NAME.openai.azure.com",
                env_var="AZURE_OPENAI_ENDPOINT",
            ),
            ConfigField(
                id="api_key",
                display_name="API key",
                field_type="secret",
                prompt="Enter the key of your resource, or leave it out to sign in with an identity",
                env_var=KEY_NAMES[0],
                required=False,
            ),
            ConfigField(
                id="default_deployment",
                display_name="Deployment",
                prompt="Name of your deployment",
                required=False,
                default=DEFAULT_DEPLOYMENT,
            ),
        ]
