"""What Ollama says of its models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_core import ModelInfo, capabilities

__all__ = ["GUESSED_WINDOW", "describe", "length_of"]

#: What is taken for the window until the server was asked.
GUESSED_WINDOW: Final = 32_768
_KNOWN: Final = {
    "tools": capabilities.TOOLS,
    "vision": capabilities.VISION,
    "thinking": capabilities.THINKING,
}


def describe(model: str, *, window: int, output: int, able: list[str] | None = None) -> ModelInfo:
    """Describe a model; `able` is what the server says it can do, None when it did not say."""
    found = [_KNOWN[name] for name in ("tools", "vision", "thinking") if able is None or name in able]
    if able is None:
        found = [capabilities.TOOLS]
    return ModelInfo(
        id=model,
        display_name=model,
        context_window=window,
        max_output_tokens=min(output, window),
        capabilities=[capabilities.STREAMING, capabilities.JSON_MODE, capabilities.LOCAL, *found],
    )


def length_of(info: Mapping[str, Any]) -> int | None:
    """Return the longest window that a model was made for, from what `show` says of it."""
    lengths = [value for key, value in info.items() if key.endswith(".context_length") and isinstance(value, int)]
    return max(lengths, default=None)
