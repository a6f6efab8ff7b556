"""The config keys that are Anthropic's alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from amplifier_kit.llm import read_bool, read_choice, read_float, read_int

__all__ = ["AnthropicSettings"]

_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True)
class AnthropicSettings:
    """Hold Anthropic's own settings."""

    max_tokens: int | None = None
    temperature: float | None = 0.7
    enable_prompt_caching: bool = True
    enable_web_search: bool = False
    web_search_max_uses: int | None = None
    web_search_user_location: Mapping[str, Any] | None = None
    enable_1m_context: bool = True
    beta_headers: tuple[str, ...] = ()
    effort: str | None = None
    speed: str | None = None
    thinking_type: str = "adaptive"
    thinking_display: str | None = "summarized"
    thinking_budget_tokens: int = 16_000
    thinking_budget_buffer: int = 8192
    task_budget_tokens: int | None = None
    fallback_on_overload: bool = False
    fallback_retry_count: int = 1
    fallback_cooldown_seconds: float = 1800.0
    fallback_sonnet_model: str = "claude-sonnet-4-6"
    fallback_haiku_model: str = "claude-haiku-4-5"
    refusal_fallback_enabled: bool = True
    refusal_fallback_model: str | None = None

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> AnthropicSettings:
        """Read a config; raises ValueError that names the key and what it must be."""
        location = config.get("web_search_user_location")
        if location is not None and not isinstance(location, Mapping):
            raise ValueError(f"web_search_user_location: must be a mapping, got {location!r}")
        return cls(
            max_tokens=_optional(config, "max_tokens"),
            temperature=None if config.get("temperature", "") is None else read_float(config, "temperature", 0.7),
            enable_prompt_caching=read_bool(config, "enable_prompt_caching", True),
            enable_web_search=read_bool(config, "enable_web_search", False),
            web_search_max_uses=_optional(config, "web_search_max_uses"),
            web_search_user_location=location,
            enable_1m_context=read_bool(config, "enable_1m_context", True),
            beta_headers=_words(config.get("beta_headers")),
            effort=read_choice(config, "effort", _EFFORTS, None),
            speed=read_choice(config, "speed", ("standard", "fast"), None),
            thinking_type=read_choice(config, "thinking_type", ("adaptive", "enabled", "disabled"), None) or "adaptive",
            thinking_display=read_choice(config, "thinking_display", ("summarized", "omitted"), "summarized"),
            thinking_budget_tokens=read_int(config, "thinking_budget_tokens", 16_000, least=1024),
            thinking_budget_buffer=read_int(config, "thinking_budget_buffer", 8192, least=1),
            task_budget_tokens=_optional(config, "task_budget_tokens"),
            fallback_on_overload=read_bool(config, "fallback_on_overload", False),
            fallback_retry_count=read_int(config, "fallback_retry_count", 1),
            fallback_cooldown_seconds=read_float(config, "fallback_cooldown_seconds", 1800.0),
            fallback_sonnet_model=str(config.get("fallback_sonnet_model") or "claude-sonnet-4-6"),
            fallback_haiku_model=str(config.get("fallback_haiku_model") or "claude-haiku-4-5"),
            refusal_fallback_enabled=read_bool(config, "refusal_fallback_enabled", True),
            refusal_fallback_model=str(config["refusal_fallback_model"])
            if config.get("refusal_fallback_model")
            else None,
        )


def _optional(config: Mapping[str, Any], key: str) -> int | None:
    return read_int(config, key, 0, least=1) or None


def _words(given: Any) -> tuple[str, ...]:
    if given is None or given == "":
        return ()
    words = given.split(",") if isinstance(given, str) else given
    if not isinstance(words, list | tuple):
        raise ValueError(f"beta_headers: must be a text or a list of texts, got {given!r}")
    return tuple(str(word).strip() for word in words if str(word).strip())
