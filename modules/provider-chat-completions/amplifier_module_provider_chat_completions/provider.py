"""The provider: its config and its server. Chat completions are in `amplifier_kit.llm.chat`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from amplifier_core import ConfigField
from amplifier_kit.llm.chat.provider import ChatProvider
from amplifier_kit.llm.chat.request import ChatConfig
from amplifier_kit.llm.client import NO_KEY
from amplifier_kit.llm.config import Name, env_or_config
from amplifier_kit.llm.provider import key_field, model_field, url_field
from amplifier_kit.named_tuple import NamedTuple

DEFAULT_NAME: Final = "chat-completions"
DEFAULT_MODEL: Final = "default"
KEY_NAMES: Final = ("CHAT_COMPLETIONS_API_KEY",)
URL_NAMES: Final = ("CHAT_COMPLETIONS_BASE_URL",)


class ChatCompletionsConfig(ChatConfig):
    """The config keys of the provider."""

    name: Name = Field(DEFAULT_NAME, description="Name to mount the provider under.")
    base_url: Name | None = Field(
        None, description="Address of the server; CHAT_COMPLETIONS_BASE_URL wins. `/v1` is added when there is no path."
    )
    api_key: Name | None = Field(
        None, repr=False, description="The key; CHAT_COMPLETIONS_API_KEY by default, for the server of the environment."
    )
    default_model: Name = Field(DEFAULT_MODEL, description="The model, unless a request names another.")


class Server(NamedTuple):
    """The address of a server; `api_key` is None when it needs no key."""

    base_url: str
    api_key: str | None


def find_server(config: Mapping[str, Any]) -> Server | None:
    """Return the server of the config and the environment, None without one.

    The environment wins, but it names only one server: an instance with an address and a name or a key keeps its own.
    A key is never sent to another server than its own.
    """
    own = env_or_config(config, "base_url")
    has_name = (env_or_config(config, "name") or DEFAULT_NAME) != DEFAULT_NAME
    is_other = own is not None and (has_name or env_or_config(config, "api_key") is not None)
    url = own if is_other else env_or_config(config, "base_url", URL_NAMES, env_wins=True)
    if url is None:
        return None
    key = env_or_config(config, "api_key", () if is_other else KEY_NAMES)
    return Server(url, None if key == NO_KEY else key)


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
        """Return the fields that a setup wizard asks for."""
        return [
            url_field("Address of the server, as http://localhost:8080/v1", URL_NAMES[0]),
            key_field("Key of the server, if it needs one", KEY_NAMES[0], required=False),
            model_field(DEFAULT_MODEL),
        ]
