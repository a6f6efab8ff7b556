"""The provider: its client, how it signs in, and the models behind deployments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Final

from amplifier_core import ConfigField
from amplifier_core.llm_errors import AuthenticationError
from amplifier_kit.llm.client import http_client, import_in_thread
from amplifier_kit.llm.errors import OPENAI, Wire
from amplifier_kit.llm.provider import key_field, url_field
from amplifier_kit.llm.request import LLMCall
from amplifier_kit.llm.response import Answer
from amplifier_kit.llm.responses.models import Abilities, abilities_of
from amplifier_kit.llm.responses.provider import ResponsesProvider
from amplifier_module_provider_azure_openai.config import (
    DEFAULT_DEPLOYMENT,
    KEY_NAMES,
    AzureConfig,
    AzureResource,
)

_SCOPE: Final = "https://cognitiveservices.azure.com/.default"


class AzureOpenAIProvider(ResponsesProvider):
    """Answer through the Responses API of a resource on Azure."""

    id = "azure-openai"
    display_name = "Azure OpenAI"
    vendor = "azure"
    key_names = KEY_NAMES
    url_name = "azure_endpoint"
    config_model = AzureConfig
    settings: AzureConfig
    # Neither OpenAI nor another cloud can read reasoning that was encrypted here.
    wire: ClassVar[Wire] = OPENAI._replace(name="azure-openai")

    def __init__(
        self, config: Mapping[str, Any], coordinator: Any = None, *, azure: AzureResource | None = None
    ) -> None:
        """Read the config; raises ValueError for a wrong or missing value."""
        self.azure = azure or AzureResource.find(config)
        if self.azure.missing:
            raise ValueError(self.azure.missing)
        super().__init__(config, coordinator, api_key=self.azure.api_key, base_url=self.azure.address)
        #: The models behind deployments, by the name of the deployment.
        self._models: dict[str, str] = {}

    async def connect(self) -> Any:
        """Return an SDK client that does not retry by itself."""
        openai = await import_in_thread("openai")
        assert self.base_url is not None
        signing: dict[str, Any] = {"api_key": self.api_key}
        if self.azure.identity is not None:
            signing = {"azure_ad_token_provider": await _token_source(self.azure, self.redactor.add_live_value)}
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
        """Return the abilities of a deployment, by the model behind it once that is known."""
        known = self._models.get(model)
        return abilities_of(known) if known is not None else super().abilities(model)

    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Stream one answer, and learn which model is behind the deployment."""
        await super().attempt(client, payload, answer, call)
        if answer.model and not abilities_of(call.model).is_known and abilities_of(answer.model).is_known:
            self._models[call.model] = answer.model

    def is_chat_model(self, listed: Any) -> bool:
        """Return whether a model answers in text, by its name and the capabilities that Azure lists."""
        listed_abilities = getattr(listed, "capabilities", None)
        able = listed_abilities.get("chat_completion") if isinstance(listed_abilities, dict) else None
        return super().is_chat_model(listed) and able is not False

    def price_model(self, call: LLMCall, answer: Answer) -> str:
        """Return the model behind the deployment; a deployment that is paid by the hour has no prices."""
        return super().price_model(call, answer) if self.azure.has_prices else "provisioned"

    def config_fields(self) -> list[ConfigField]:
        """Return the fields that a setup wizard asks for."""
        address = "Address of your resource, as https://NAME.openai.azure.com"
        key = "Enter the key of your resource, or leave it out to sign in with an identity"
        return [
            url_field(address, "AZURE_OPENAI_ENDPOINT", id="azure_endpoint", name="Endpoint"),
            key_field(key, KEY_NAMES[0], required=False),
            ConfigField(
                id="default_deployment",
                display_name="Deployment",
                prompt="Name of your deployment",
                required=False,
                default=DEFAULT_DEPLOYMENT,
            ),
        ]


async def _token_source(resource: AzureResource, keep_secret: Callable[[str], None]) -> Callable[[], Awaitable[str]]:
    """Return a function that returns the token for a request; `keep_secret` is called with every token.

    Raises ConfigurationError when azure-identity is not installed. Azure's library renews tokens, in a thread; the
    function raises AuthenticationError when the sign-in fails.
    """
    library = await import_in_thread("azure.identity", needs="azure-identity")
    credential: Any
    if resource.identity == "managed":
        credential = library.ManagedIdentityCredential(client_id=resource.client_id)
    else:
        credential = library.DefaultAzureCredential(managed_identity_client_id=resource.client_id)

    async def token() -> str:
        try:
            given = await asyncio.to_thread(credential.get_token, _SCOPE)
        except Exception as error:
            why = " ".join(str(error).split())
            raise AuthenticationError(f"Azure refused a token for the {resource.identity} identity: {why}") from error
        text = str(given.token)
        keep_secret(text)
        return text

    return token
