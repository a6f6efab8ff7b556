"""The provider: where its server is, and what it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from amplifier_core import ConfigField
from amplifier_kit.llm import env_or_config
from amplifier_kit.llm.chat import NO_KEY, ChatProvider

__all__ = ["ChatCompletionsProvider", "Server", "find_server"]

DEFAULT_NAME: Final = "chat-completions"
DEFAULT_MODEL: Final = "default"

_URL_NAMES: Final = ("CHAT_COMPLETIONS_BASE_URL",)
_KEY_NAMES: Final = ("CHAT_COMPLETIONS_API_KEY",)


class Server(NamedTuple):
    """Say where a server is; `api_key` is None when it needs none."""

    base_url: str
    api_key: str | None


def find_server(config: Mapping[str, Any]) -> Server | None:
    """Return the server that a config and the environment name, None when they name none.

    The environment wins. But it names one server: an instance with an address of its own, and a name or a key for it,
    keeps to them. No key is sent to a server that it is not for.
    """
    own = env_or_config(config, "base_url")
    has_name = str(config.get("name") or DEFAULT_NAME) != DEFAULT_NAME
    is_other = own is not None and (has_name or env_or_config(config, "api_key") is not None)
    url = own if is_other else env_or_config(config, "base_url", _URL_NAMES, env_wins=True)
    if url is None:
        return None
    key = env_or_config(config, "api_key", () if is_other else _KEY_NAMES)
    return Server(url, None if key == NO_KEY else key)


class ChatCompletionsProvider(ChatProvider):
    """Answer through a server that speaks chat completions."""

    id = DEFAULT_NAME
    display_name = "Chat completions"
    key_names = _KEY_NAMES

    def __init__(
        self, config: Mapping[str, Any], coordinator: Any = None, *, base_url: str, api_key: str | None = None
    ) -> None:
        """Take a config; raises ValueError for a value that cannot be used."""
        model = str(config.get("default_model") or config.get("model") or DEFAULT_MODEL)
        name = str(config.get("name") or DEFAULT_NAME)
        super().__init__(config, coordinator, base_url=base_url, model=model, api_key=api_key, name=name)

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
