"""The config keys of the provider: those of both APIs, whichever is used."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from amplifier_kit.llm.chat.request import ChatConfig
from amplifier_kit.llm.config import Name, Number, PositiveNumber, Temperature, Whole
from amplifier_kit.llm.responses.request import Chaining, ResponsesConfig

DEFAULT_MODEL: Final = "openai/gpt-oss-20b"
URL_NAMES: Final = ("VLLM_BASE_URL",)
KEY_NAMES: Final = ("VLLM_API_KEY",)


class VLLMConfig(ChatConfig, ResponsesConfig):
    """The config keys of the provider."""

    base_url: Name | None = Field(
        None, description="Address of the server; VLLM_BASE_URL by default. `/v1` is added when there is no path."
    )
    api_key: Name | None = Field(None, repr=False, description="The key; VLLM_API_KEY by default.")
    api: Literal["responses", "chat"] = Field("responses", description="The API of the server to use.")
    default_model: Name = Field(DEFAULT_MODEL, description="The model, unless a request names another.")
    max_tokens: Whole = Field(
        4096, description="Tokens of the longest answer; with `api: chat`, 0 for the server's default."
    )
    temperature: Temperature = Field(None, description="Sampling temperature; null for the server's default.")
    # A vLLM server stores no responses unless it was started so.
    enable_response_chaining: Chaining = Field(
        False, description="Continue from responses that the server stores, which it does only when started so."
    )
    truncation: Literal["auto", "disabled"] | None = Field(
        "disabled", description="auto drops the middle of a conversation that is too long, disabled is an error then."
    )
    timeout: PositiveNumber = Field(600.0, description="Seconds to connect and to send.")
    max_retries: Whole = Field(5, description="Further attempts after errors that may pass.")
    max_retry_delay: Number = Field(
        60.0, description="Longest delay before a retry; a server that asks for a longer one is not asked again."
    )

    @model_validator(mode="after")
    def _check_max_tokens(self) -> Self:
        if self.api == "responses" and not self.max_tokens:
            raise ValueError("config key 'max_tokens' must be at least 1 with `api: responses`, got 0")
        return self
