"""The config keys of the provider, and the address of its server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from pydantic import Field

from amplifier_kit.llm.config import (
    Name,
    PositiveNumber,
    PositiveWhole,
    ProviderConfig,
    Switch,
    Temperature,
    Whole,
    env_or_config,
)

DEFAULT_MODEL: Final = "llama3.2:3b"

_PORT: Final = 11434
_HOST: Final = f"http://localhost:{_PORT}"
#: Addresses that servers listen on, and the ones to call them at.
_LISTEN_ADDRESSES: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


class OllamaConfig(ProviderConfig):
    """The config keys of the provider."""

    tolerated_keys: ClassVar[frozenset[str]] = ProviderConfig.tolerated_keys - {"debug", "raw_debug"}

    host: Name | None = Field(None, description=f"Address of the server; OLLAMA_HOST by default, else {_HOST}.")
    api_key: Name | None = Field(
        None,
        repr=False,
        description="For a server behind a gateway, or Ollama's cloud; OLLAMA_API_KEY by default.",
    )
    default_model: Name = Field(DEFAULT_MODEL, description="The model, unless a request names another.")
    timeout: PositiveNumber = Field(300.0, description="Seconds to connect and to send.")
    max_tokens: PositiveWhole = Field(4096, description="Tokens of the longest answer.")
    temperature: Temperature = Field(0.7, description="Sampling temperature; null for the model's default.")
    num_ctx: Whole = Field(0, description="Tokens of the window to load the model with; 0 for the server's default.")
    enable_thinking: Switch = Field(True, description="Let models think.")
    auto_pull: Switch = Field(False, description="Let the server download a model that it does not have.")
    raw_debug: Switch = Field(False, description="The same as `raw`.")
    debug: Switch = Field(False, description="Accepted for published bundles, without effect.")


def host_of(config: Mapping[str, Any]) -> str:
    """Return the server's URL; `OLLAMA_HOST` may leave out parts of it, or be the address that the server listens on.

    Raises ValueError for an invalid address.
    """
    given = env_or_config(config, "host", ("OLLAMA_HOST",)) or _HOST
    has_scheme = "://" in given
    if not has_scheme and given.startswith(":"):
        given = f"127.0.0.1{given}"
    try:
        parts = urlsplit(given if has_scheme else f"http://{given}")
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"provider-ollama: host: invalid address {given!r}: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"provider-ollama: host: must be an address like {_HOST}, got {given!r}")
    name = _LISTEN_ADDRESSES.get(host) or (f"[{host}]" if ":" in host else host)
    if port is None and not has_scheme:
        port = _PORT
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
