"""Describe the models of a server by what it says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_core import ModelInfo, capabilities

__all__ = ["describe", "is_for_chat", "listed_models"]

_WINDOWS: Final = ("max_model_len", "context_length", "context_window", "max_context_length")
_LONGEST: Final = ("max_completion_tokens", "max_output_tokens")
#: Parts of names of models that do not chat.
_OTHERS: Final = ("embed", "rerank", "whisper", "tts", "moderation")


def describe(model: str, *, context_window: int, max_output_tokens: int, said: Mapping[str, Any] = {}) -> ModelInfo:
    """Describe a model; what its server `said` of it in its list wins over the limits given."""
    window = _told(said, _WINDOWS) or _told(_inner(said, "meta"), ("n_ctx", "n_ctx_train")) or context_window
    longest = _told(said, _LONGEST) or _told(_inner(said, "top_provider"), _LONGEST) or max_output_tokens
    able = [capabilities.TOOLS, capabilities.STREAMING, capabilities.JSON_MODE]
    if "image" in (_inner(said, "architecture").get("input_modalities") or ()):
        able.append(capabilities.VISION)
    return ModelInfo(
        id=model,
        display_name=str(said.get("name") or model),
        context_window=window,
        max_output_tokens=min(longest, window),
        capabilities=able,
    )


async def listed_models(client: Any) -> list[dict[str, Any]]:
    """Return what the server lists, one mapping for each model."""
    return [listed.model_dump() async for listed in client.models.list()]


def is_for_chat(model: str) -> bool:
    """Tell whether a model's name is that of one that answers, as far as one can tell."""
    name = model.lower()
    return not any(part in name for part in _OTHERS)


def _inner(said: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = said.get(key)
    return inner if isinstance(inner, Mapping) else {}


def _told(said: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        value = said.get(key)
        if isinstance(value, int) and value > 0:
            return value
    return None
