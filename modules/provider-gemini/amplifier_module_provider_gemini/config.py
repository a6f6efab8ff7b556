"""The config keys of the provider."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from amplifier_kit.llm import ProviderConfig
from amplifier_kit.llm.config import Name, PositiveWhole, Temperature

__all__ = ["DEFAULT_MODEL", "GeminiConfig"]

DEFAULT_MODEL: Final = "gemini-2.5-flash"


class GeminiConfig(ProviderConfig):
    """The config keys of the provider."""

    api_key: Name | None = Field(None, repr=False, description="The key; GOOGLE_API_KEY or GEMINI_API_KEY by default.")
    base_url: Name | None = Field(
        None, description="Address of the service; GOOGLE_GEMINI_BASE_URL by default, else Google's."
    )
    default_model: Name = Field(DEFAULT_MODEL, description="The model, unless a request names another.")
    max_tokens: PositiveWhole = Field(8192, description="Tokens of the longest answer, besides those for thinking.")
    temperature: Temperature = Field(
        0.7,
        description="Sampling temperature; null for the service's default, which Gemini 3 and later use unless one is "
        "given here.",
    )
