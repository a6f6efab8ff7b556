"""The config keys of the provider, and the server that they and the environment name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic import Field

from amplifier_kit.llm import env_or_config
from amplifier_kit.llm.chat import NO_KEY, ChatConfig
from amplifier_kit.llm.config import Name

__all__ = ["DEFAULT_MODEL", "DEFAULT_NAME", "KEY_NAMES", "ChatCompletionsConfig", "Server", "find_server"]

DEFAULT_NAME: Final = "chat-completions"
DEFAULT_MODEL: Final = "default"
KEY_NAMES: Final = ("CHAT_COMPLETIONS_API_KEY",)

_URL_NAMES: Final = ("CHAT_COMPLETIONS_BASE_URL",)


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
    """Return the server that a config and the environment name, None when they name no server.

    The environment wins. But it names one server: an instance that has an address with a name or a key keeps to them.
    No key is sent to a server that it is not for.
    """
    own = env_or_config(config, "base_url")
    has_name = (env_or_config(config, "name") or DEFAULT_NAME) != DEFAULT_NAME
    is_other = own is not None and (has_name or env_or_config(config, "api_key") is not None)
    url = own if is_other else env_or_config(config, "base_url", _URL_NAMES, env_wins=True)
    if url is None:
        return None
    key = env_or_config(config, "api_key", () if is_other else KEY_NAMES)
    return Server(url, None if key == NO_KEY else key)
