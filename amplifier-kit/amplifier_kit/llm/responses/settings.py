"""The config keys of services that speak the Responses API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from amplifier_kit.llm.responses.abilities import EFFORTS
from amplifier_kit.llm.settings import read_bool, read_choice, read_float, read_int

__all__ = ["ResponsesSettings"]


@dataclass(frozen=True)
class ResponsesSettings:
    """Hold what a service of this kind is asked for."""

    max_tokens: int = 4096
    temperature: float | None = None
    #: The `reasoning` argument as the config has it, with at least an `effort`; empty when the config says nothing.
    reasoning: Mapping[str, Any] = field(default_factory=dict)
    reasoning_summary: str | None = "detailed"
    truncation: str | None = None
    enable_state: bool = False
    enable_response_chaining: Literal["auto"] | bool = "auto"
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    #: Whether the retention was asked for by name, and not only by default.
    insists_on_retention: bool = False
    safety_identifier: str | None = None
    poll_interval: float = 5.0
    background_timeout: float = 1800.0
    enable_long_context: bool = False

    @classmethod
    def read(cls, config: Mapping[str, Any], *, retention: str | None = None) -> ResponsesSettings:
        """Read a config; `retention` is the service's default. Raises ValueError that names the key."""
        given = config.get("prompt_cache_retention", "")
        return cls(
            max_tokens=read_int(config, "max_tokens", 4096, least=1),
            temperature=read_float(config, "temperature", 0.0) if config.get("temperature") is not None else None,
            reasoning=_reasoning(config.get("reasoning")),
            reasoning_summary=None
            if config.get("reasoning_summary", "") is None
            else read_choice(config, "reasoning_summary", ("auto", "concise", "detailed"), "detailed"),
            truncation=read_choice(config, "truncation", ("auto", "disabled"), None),
            enable_state=read_bool(config, "enable_state", False),
            enable_response_chaining=_chaining(config),
            prompt_cache_key=_text(config, "prompt_cache_key"),
            prompt_cache_retention=None
            if given is None
            else read_choice(config, "prompt_cache_retention", ("in_memory", "24h"), retention),
            insists_on_retention=bool(given),
            safety_identifier=_text(config, "safety_identifier"),
            poll_interval=read_float(config, "poll_interval", 5.0),
            background_timeout=read_float(config, "background_timeout", 1800.0, above=0),
            enable_long_context=read_bool(config, "enable_long_context", False),
        )


def _reasoning(given: Any) -> Mapping[str, Any]:
    if given is None or given == "":
        return {}
    wanted = given if isinstance(given, Mapping) else {"effort": given}
    if wanted.get("effort") not in (None, *EFFORTS):
        raise ValueError(f"reasoning: the effort must be one of {', '.join(EFFORTS)}, got {wanted['effort']!r}")
    return dict(wanted)


def _chaining(config: Mapping[str, Any]) -> Literal["auto"] | bool:
    if config.get("enable_response_chaining") in (None, "", "auto"):
        return "auto"
    return read_bool(config, "enable_response_chaining", True)


def _text(config: Mapping[str, Any], key: str) -> str | None:
    value = config.get(key)
    return str(value) if value is not None and value != "" else None
