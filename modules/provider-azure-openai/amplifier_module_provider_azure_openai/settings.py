"""Where the resource is, and how to sign in: the config keys that are Azure's alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from amplifier_kit.llm import env_or_config, read_bool

__all__ = ["AzureSettings"]

KEY_NAMES: Final = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_KEY")

_VERSION: Final = "2025-04-01-preview"
#: The version of addresses that end in `/v1`, which have no dates any more.
_VERSION_OF_V1: Final = "preview"


@dataclass(frozen=True)
class AzureSettings:
    """Hold Azure's own settings."""

    address: str | None
    api_version: str
    api_key: str | None = None
    identity: Literal["managed", "default"] | None = None
    client_id: str | None = None
    deployment_type: str | None = None

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> AzureSettings:
        """Read a config; raises ValueError that names the key and what it must be."""
        endpoint = env_or_config(config, "azure_endpoint") or env_or_config(config, "base_url")
        endpoint = endpoint or env_or_config({}, "azure_endpoint", ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL"))
        address = _address(endpoint) if endpoint else None
        is_v1 = address is not None and address.endswith("/v1")
        version = env_or_config(config, "api_version", ("AZURE_OPENAI_API_VERSION",))
        managed = _switch(config, "use_managed_identity", "AZURE_USE_MANAGED_IDENTITY")
        default = _switch(config, "use_default_credential", "AZURE_USE_DEFAULT_CREDENTIAL")
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
        """Return what has to be set first, None when nothing has to."""
        if self.address is None:
            return "no address; set AZURE_OPENAI_ENDPOINT or `azure_endpoint`"
        if self.api_key is None and self.identity is None:
            return "no key; set AZURE_OPENAI_API_KEY, `api_key`, `use_managed_identity` or `use_default_credential`"
        return None

    @property
    def has_prices(self) -> bool:
        """Tell whether tokens have a price: provisioned deployments are paid by the hour."""
        return "provisioned" not in (self.deployment_type or "").lower()


def _address(endpoint: str) -> str:
    """Return what paths of the API are added to: that of a resource is followed by `/openai`."""
    url = endpoint.rstrip("/")
    return url if url.endswith(("/openai", "/v1")) else f"{url}/openai"


def _switch(config: Mapping[str, Any], key: str, name: str) -> bool:
    return read_bool({key: env_or_config(config, key, (name,))}, key, False)
