"""Read what the plan says about a loop, and say clearly what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

__all__ = ["UNLIMITED", "LoopSettings", "read_flag", "read_integer", "read_number", "read_text"]

#: The value of `max_iterations` that means there is no limit.
UNLIMITED: Final = -1

_MAX_ITERATIONS: Final = 100
_TOOL_TIMEOUT: Final = 600.0
_HEARTBEAT: Final = 30.0
_WARN_AFTER: Final = 3
_STOP_AFTER: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """Hold the settings that all loops share; every one has a key of the same name in the module's config."""

    #: Model calls in one turn before the model is asked to sum up; -1 for no limit.
    max_iterations: int = _MAX_ITERATIONS
    #: Provider to use, by the name it is mounted under; None for the one of the lowest priority.
    default_provider: str | None = None
    extended_thinking: bool = False
    reasoning_effort: str | None = None
    #: Seconds one tool call may take; None for no limit.
    tool_timeout: float | None = _TOOL_TIMEOUT
    #: The same for single tools, by name.
    tool_timeouts: Mapping[str, float | None] = field(default_factory=dict)
    #: Seconds between signs of life while something runs long; None for none.
    heartbeat_interval: float | None = _HEARTBEAT
    #: Repetitions of the same calls with the same results before the model is warned, and before the turn ends; None
    #: for never.
    loop_guard_warn: int | None = _WARN_AFTER
    loop_guard_stop: int | None = _STOP_AFTER

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Self:
        """Read a module's config; keys of others are left alone. Raises ValueError that names the key."""
        config = config or {}
        return cls(
            max_iterations=_read_iterations(config),
            default_provider=read_text(config, "default_provider", None),
            extended_thinking=read_flag(config, "extended_thinking", False),
            reasoning_effort=read_text(config, "reasoning_effort", None),
            tool_timeout=_read_seconds(config, "tool_timeout", _TOOL_TIMEOUT),
            tool_timeouts=_read_timeouts(config),
            heartbeat_interval=_read_seconds(config, "heartbeat_interval", _HEARTBEAT),
            loop_guard_warn=_read_count(config, "loop_guard_warn", _WARN_AFTER),
            loop_guard_stop=_read_count(config, "loop_guard_stop", _STOP_AFTER),
        )

    def is_beyond(self, iterations: int) -> bool:
        """Tell whether no further model call is allowed after so many."""
        return self.max_iterations != UNLIMITED and iterations >= self.max_iterations

    def timeout_of(self, tool_name: str, tool: Any) -> float | None:
        """Return how long a call of this tool may take: by name, else as the tool says itself, else as all."""
        if tool_name in self.tool_timeouts:
            return self.tool_timeouts[tool_name]
        own = getattr(tool, "deadline", self.tool_timeout)
        if own is None or (isinstance(own, int | float) and not isinstance(own, bool) and own > 0):
            return own
        return self.tool_timeout


def read_number(config: Mapping[str, Any], key: str, default: float, *, least: float = 0.0) -> float:
    """Return a number of at least `least`, or the default when the key is absent or null."""
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
        raise ValueError(f"{key} must be a number of at least {least:g}, got {value!r}")
    return float(value)


def read_integer(config: Mapping[str, Any], key: str, default: int, *, least: int = 0) -> int:
    """Return an integer of at least `least`, or the default when the key is absent or null."""
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{key} must be an integer of at least {least}, got {value!r}")
    return value


def read_text(config: Mapping[str, Any], key: str, default: str | None) -> str | None:
    """Return a text, or the default when the key is absent, null or empty."""
    value = config.get(key)
    if value is None or value == "":
        return default
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a text, got {value!r}")
    return value


def read_flag(config: Mapping[str, Any], key: str, default: bool) -> bool:
    """Return true or false, or the default when the key is absent or null."""
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ValueError(f"{key} must be true or false, got {value!r}")
    return value


def _read_iterations(config: Mapping[str, Any]) -> int:
    value = config.get("max_iterations")
    if value is None:
        return _MAX_ITERATIONS
    if isinstance(value, bool) or not isinstance(value, int) or (value < 1 and value != UNLIMITED):
        raise ValueError(f"max_iterations must be a positive integer, or {UNLIMITED} for no limit, got {value!r}")
    return value


def _read_seconds(config: Mapping[str, Any], key: str, default: float) -> float | None:
    return _seconds(key, config[key]) if key in config else default


def _seconds(key: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"{key} must be a positive number of seconds, or null for no limit, got {value!r}")
    return float(value)


def _read_timeouts(config: Mapping[str, Any]) -> dict[str, float | None]:
    given = config.get("tool_timeouts")
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"tool_timeouts must map tool names to seconds, got {given!r}")
    return {str(name): _seconds(f"tool_timeouts.{name}", value) for name, value in given.items()}


def _read_count(config: Mapping[str, Any], key: str, default: int) -> int | None:
    if key not in config:
        return default
    value = config[key]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 2:
        raise ValueError(f"{key} must be an integer of at least 2, or null for never, got {value!r}")
    return value
