"""The provider for vLLM's chat completions, for servers and models whose Responses API does not work well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from amplifier_core import ConfigField
from amplifier_kit.llm.chat.provider import CHAT, ChatProvider
from amplifier_kit.llm.errors import Wire
from amplifier_module_provider_vllm.config import KEY_NAMES, VLLMConfig
from amplifier_module_provider_vllm.provider import CONTEXT_WINDOW, MAX_OUTPUT_TOKENS, wizard_fields


class VLLMChatProvider(ChatProvider):
    """Answer through the chat completions of a vLLM server."""

    id = "vllm"
    display_name = "vLLM"
    # Reasoning of other servers, and of this one's Responses API, cannot be sent back here.
    wire: ClassVar[Wire] = CHAT._replace(name="vllm-chat")
    prefix: ClassVar[str] = "vllm"
    key_names = KEY_NAMES
    config_model = VLLMConfig
    settings: VLLMConfig
    context_window = CONTEXT_WINDOW
    max_output_tokens = MAX_OUTPUT_TOKENS

    def __init__(
        self, config: Mapping[str, Any], coordinator: Any = None, *, base_url: str, api_key: str | None = None
    ) -> None:
        """Read the config; raises ConfigError, which names each wrong value."""
        super().__init__(config, coordinator, base_url=base_url, api_key=api_key)
        effort = self.settings.reasoning_effort or self.settings.reasoning.get("effort")
        self.settings = self.settings.model_copy(update={"reasoning_effort": effort})

    def config_fields(self) -> list[ConfigField]:
        """Return the fields that a setup wizard asks for."""
        return wizard_fields()
