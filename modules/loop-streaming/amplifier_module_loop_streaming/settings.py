"""Read what the plan says about this loop beyond what all loops share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from amplifier_kit.engine.loop.settings import UNLIMITED, LoopSettings, read_integer, read_number, read_text

__all__ = ["GoalSettings", "Preference", "StreamingSettings"]


class Preference(NamedTuple):
    """Name a model to judge with: a provider ('*' for any) and a glob of model ids."""

    provider: str
    model: str


#: Small and quick models, tried in this order.
_PREFERENCES: Final = (
    Preference("anthropic", "claude-haiku-*"),
    Preference("openai", "gpt-*-mini*"),
    Preference("gemini", "gemini-*-flash*"),
    Preference("github-copilot", "*-mini*"),
    Preference("ollama", "*"),
)
_CAP: Final = 50
_ROLE: Final = "fast"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalSettings:
    """Hold the settings of the goal loop; the config keys have the prefix `goal_`."""

    stall_threshold: int = 3
    model_role: str = _ROLE
    provider_preferences: tuple[Preference, ...] = _PREFERENCES
    max_transcript_messages: int = 40
    tool_content_clip_chars: int = 2000
    transcript_char_budget: int = 60_000
    busy_stall_window: int = 3
    busy_stall_min_overlap: float = 0.5
    summary_max_reasons: int = 20
    #: Turns for a goal that names no cap of its own; -1 for no limit.
    default_cap: int = _CAP

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Read the `goal_` keys; raise ValueError that names the key that is wrong."""
        return cls(
            stall_threshold=read_integer(config, "goal_stall_threshold", 3, least=1),
            model_role=read_text(config, "goal_model_role", _ROLE) or _ROLE,
            provider_preferences=_read_preferences(config),
            max_transcript_messages=read_integer(config, "goal_max_transcript_messages", 40, least=1),
            tool_content_clip_chars=read_integer(config, "goal_tool_content_clip_chars", 2000, least=1),
            transcript_char_budget=read_integer(config, "goal_transcript_char_budget", 60_000, least=1),
            busy_stall_window=read_integer(config, "goal_busy_stall_window", 3, least=2),
            busy_stall_min_overlap=read_number(config, "goal_busy_stall_min_overlap", 0.5),
            summary_max_reasons=read_integer(config, "goal_summary_max_reasons", 20, least=1),
            default_cap=_read_cap(config),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingSettings:
    """Hold all settings of the loop."""

    loop: LoopSettings
    goal: GoalSettings
    #: Seconds to wait per word of an answer that came in one piece.
    stream_delay: float = 0.0
    #: Milliseconds that must lie between two model calls.
    min_delay_between_calls_ms: float = 0.0

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Self:
        """Read the module's config; raise ValueError that names the key that is wrong."""
        config = config or {}
        return cls(
            loop=LoopSettings.from_config(config),
            goal=GoalSettings.from_config(config),
            stream_delay=read_number(config, "stream_delay", 0.0),
            min_delay_between_calls_ms=read_number(config, "min_delay_between_calls_ms", 0.0),
        )


def _read_cap(config: Mapping[str, Any]) -> int:
    value = config.get("goal_default_cap")
    return UNLIMITED if value == UNLIMITED else read_integer(config, "goal_default_cap", _CAP, least=1)


def _read_preferences(config: Mapping[str, Any]) -> tuple[Preference, ...]:
    given = config.get("goal_provider_preferences")
    if given is None:
        return _PREFERENCES
    if not isinstance(given, list | tuple):
        raise ValueError(f"goal_provider_preferences must be a list, got {given!r}")
    return tuple(map(_read_preference, given))


def _read_preference(entry: Any) -> Preference:
    if isinstance(entry, str) and entry:
        return Preference("*", entry)
    if isinstance(entry, Mapping) and isinstance(entry.get("provider", "*"), str):
        model = entry.get("model") or "*"
        if isinstance(model, str):
            return Preference(entry.get("provider") or "*", model)
    raise ValueError(f"goal_provider_preferences: each entry names a provider and a model glob, got {entry!r}")
