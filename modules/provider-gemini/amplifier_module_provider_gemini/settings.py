"""The config keys that are Gemini's alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from amplifier_kit.llm import read_float, read_int

__all__ = ["GeminiSettings"]

_TEMPERATURE: Final = 0.7


@dataclass(frozen=True)
class GeminiSettings:
    """Hold Gemini's own settings."""

    #: The longest answer, without what the model thinks before it.
    max_tokens: int = 8192
    temperature: float | None = _TEMPERATURE
    #: Whether the temperature was chosen by somebody: the newest models are better off with their own.
    is_temperature_given: bool = False

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> GeminiSettings:
        """Read a config; raises ValueError that names the key and what it must be."""
        is_left = "temperature" in config and config["temperature"] is None
        return cls(
            max_tokens=read_int(config, "max_tokens", 8192, least=1),
            temperature=None if is_left else read_float(config, "temperature", _TEMPERATURE),
            is_temperature_given=config.get("temperature") not in (None, ""),
        )
