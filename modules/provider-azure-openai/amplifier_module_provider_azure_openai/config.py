"""The config keys of the provider, and the address and sign-in of the resource that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field

from amplifier_kit.llm.config import Name, Switch, env_or_config, to_switch
from amplifier_kit.llm.responses.request import ResponsesConfig
from amplifier_kit.named_tuple import NamedTuple

DEFAULT_DEPLOYMENT: Final = "gpt-5.4"
KEY_NAMES: Final = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_KEY")

_VERSION: Final = "2025-04-01-preview"
#: The version for addresses that end in `/v1`, which has no dates.
_VERSION_OF_V1: Final = "preview"


class AzureConfig(ResponsesConfig):
    """The config keys of the provider."""

    azure_endpoint: Name | None = Field(
        None, description="Address of the resource; AZURE_OPENAI_ENDPOINT or AZURE_OPENAI_BASE_URL by default."
    )
    base_url: Name | None = Field(None, description="The same as `azure_endpoint`.")
    api_version: Name | None = Field(None, description="Version of the API; AZURE_OPENAI_API_VERSION by default.")
    api_key: Name | None = Field(
        None, repr=False, description="The key; AZURE_OPENAI_API_KEY or AZURE_OPENAI_KEY by default."
    )
    default_model: Name = Field(DEFAULT_DEPLOYMENT, description="The same as `default_deployment`.")
    default_deployment: Name | None = Field(
        None, description="Name of the deployment, unless a request names another; gpt-5.4 by default."
    )
    deployment_type: Name | None = Field(
        None, description="How the deployment is paid for; costs of provisioned deployments are unknown."
    )
    use_managed_identity: Switch | None = Field(
        None, description="Sign in as the machine; AZURE_USE_MANAGED_IDENTITY by default."
    )
    managed_identity_client_id: Name | None = Field(
        None, description="Which of the machine's identities; AZURE_MANAGED_IDENTITY_CLIENT_ID by default."
    )
    use_default_credential: Switch | None = Field(
        None, description="Sign in with Azure's default credentials; AZURE_USE_DEFAULT_CREDENTIAL by default."
    )

    @classmethod
    def is_unset(cls, key: str, value: Any) -> bool:
        """Return whether a value leaves a key at its default; so does an unset `${NAME}` for a switch."""
        is_switch = key in ("use_managed_identity", "use_default_credential")
        return super().is_unset(key, value) or (is_switch and env_or_config({key: value}, key) is None)

    @property
    def chosen_model(self) -> str:
        """The deployment to use."""
        return self.default_deployment or super().chosen_model


class AzureResource(NamedTuple):
    """A resource on Azure: its address, and how to sign in."""

    address: str | None
    api_version: str
    api_key: str | None = None
    identity: Literal["managed", "default"] | None = None
    client_id: str | None = None
    deployment_type: str | None = None

    @classmethod
    def find(cls, config: Mapping[str, Any]) -> AzureResource:
        """Return the resource of a config and the environment; raises ValueError for a wrong switch."""
        endpoint = env_or_config(config, "azure_endpoint") or env_or_config(config, "base_url")
        endpoint = endpoint or env_or_config({}, "azure_endpoint", ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL"))
        address = _address(endpoint) if endpoint else None
        is_v1 = address is not None and address.endswith("/v1")
        version = env_or_config(config, "api_version", ("AZURE_OPENAI_API_VERSION",))
        managed = _is_on(config, "use_managed_identity", "AZURE_USE_MANAGED_IDENTITY")
        default = _is_on(config, "use_default_credential", "AZURE_USE_DEFAULT_CREDENTIAL")
        return cls(
            address=address,
            api_version=version or (_VERSION_OF_V1 if is_v1 else _VERSION),
            api_key=None if managed or default else env_or_config(config, "api_key", KEY_NAMES),
            identity="managed" if managed else "default" if default else None,
            client_id=env_or_config(config, "managed_identity_client_id", ("AZURE_MANAGED_IDENTITY_CLIENT_ID",)),
            deployment_type=env_or_config(config, "deployment_type"),
        )

    @property
    def missing(self) -> str | None:
        """The missing settings and how to set them; None when nothing is missing."""
        if self.address is None:
            return "it has no address; set AZURE_OPENAI_ENDPOINT or `azure_endpoint`"
        if self.api_key is None and self.identity is None:
            return (
                "it has no key; set AZURE_OPENAI_API_KEY, `api_key`, `use_managed_identity` or `use_default_credential`"
            )
        return None

    @property
    def has_prices(self) -> bool:
        """Whether tokens have a price: provisioned deployments are paid by the hour."""
        return "provisioned" not in (self.deployment_type or "").lower()


def _address(endpoint: str) -> str:
    """Return the address that paths of the API are appended to: `/openai` below a resource."""
    url = endpoint.rstrip("/")
    return url if url.endswith(("/openai", "/v1")) else f"{url}/openai"


def _is_on(config: Mapping[str, Any], key: str, variable: str) -> bool:
    given = env_or_config(config, key, (variable,))
    switch = False if given is None else to_switch(given)
    if not isinstance(switch, bool):
        raise ValueError(f"provider-azure-openai: {key} (or {variable}) must be true or false, got {given!r}")
    return switch
