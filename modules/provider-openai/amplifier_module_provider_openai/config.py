"""The config keys of the provider."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from amplifier_kit.llm.config import Name
from amplifier_kit.llm.responses import ResponsesConfig
from amplifier_kit.llm.responses.config import Retention

__all__ = ["OpenAIConfig"]

DEFAULT_MODEL: Final = "gpt-5.5"


class OpenAIConfig(ResponsesConfig):
    """The config keys of the provider."""

    api_key: Name | None = Field(None, repr=False, description="The key; OPENAI_API_KEY by default.")
    base_url: Name | None = Field(
        None, description="Address of the service, with `/v1`; OPENAI_BASE_URL by default, else OpenAI's."
    )
    default_model: Name = Field(DEFAULT_MODEL, description="The model, unless a request names another.")
    prompt_cache_retention: Retention | None = Field(
        "24h", description="How long prompt caches are kept, for models that offer it; null for the service's default."
    )
