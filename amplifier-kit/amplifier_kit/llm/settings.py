"""Read the config keys that all providers share, and say which one is wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "COMMON_KEYS",
    "CommonSettings",
    "env_or_config",
    "name_of_key",
    "read_bool",
    "read_choice",
    "read_float",
    "read_int",
]

#: Keys that every provider takes besides its own.
COMMON_KEYS: Final = frozenset(
    {
        "priority",
        "default_model",
        "timeout",
        "stream_idle_timeout",
        "use_streaming",
        "raw",
        "filtered",
        "max_retries",
        "min_retry_delay",
        "max_retry_delay",
        "retry_jitter",
        "overloaded_delay_multiplier",
        "max_concurrent_requests",
        "throttle_threshold",
        "throttle_delay",
        "circuit_breaker_threshold",
        "circuit_breaker_cooldown",
        "structured_output_retries",
        "send_session_id",
        "context_window",
        "max_output_tokens",
    }
)

#: A shorter key may stand in a variable that has nothing to do with it.
_SHORTEST_KEY: Final = 8


@dataclass(frozen=True, slots=True)
class CommonSettings:
    """Hold the settings that the shared part of a provider goes by."""

    priority: int = 100
    timeout: float = 600.0
    #: Seconds without a sign of life from a stream before it counts as dead.
    stream_idle_timeout: float = 300.0
    use_streaming: bool = True
    raw: bool = False
    filtered: bool = True
    max_retries: int = 5
    min_retry_delay: float = 1.0
    max_retry_delay: float = 60.0
    retry_jitter: bool = True
    overloaded_delay_multiplier: float = 10.0
    max_concurrent_requests: int = 5
    #: Share of a rate limit below which calls are spaced out; 0 never does.
    throttle_threshold: float = 0.02
    throttle_delay: float = 1.0
    circuit_breaker_threshold: int = 5
    circuit_breaker_cooldown: float = 30.0
    structured_output_retries: int = 2
    send_session_id: bool = False

    @classmethod
    def read(cls, config: Mapping[str, Any], **defaults: Any) -> CommonSettings:
        """Read a config; `defaults` are a provider's own. Raises ValueError that names the key and what it must be."""
        base = cls(**defaults)
        return cls(
            priority=read_int(config, "priority", base.priority, least=None),
            timeout=read_float(config, "timeout", base.timeout, above=0),
            stream_idle_timeout=read_float(config, "stream_idle_timeout", base.stream_idle_timeout, above=0),
            use_streaming=read_bool(config, "use_streaming", base.use_streaming),
            raw=read_bool(config, "raw", base.raw),
            filtered=read_bool(config, "filtered", base.filtered),
            max_retries=read_int(config, "max_retries", base.max_retries),
            min_retry_delay=read_float(config, "min_retry_delay", base.min_retry_delay),
            max_retry_delay=read_float(config, "max_retry_delay", base.max_retry_delay),
            retry_jitter=read_bool(config, "retry_jitter", base.retry_jitter),
            overloaded_delay_multiplier=read_float(
                config, "overloaded_delay_multiplier", base.overloaded_delay_multiplier
            ),
            max_concurrent_requests=read_int(config, "max_concurrent_requests", base.max_concurrent_requests),
            throttle_threshold=read_float(config, "throttle_threshold", base.throttle_threshold),
            throttle_delay=read_float(config, "throttle_delay", base.throttle_delay),
            circuit_breaker_threshold=read_int(config, "circuit_breaker_threshold", base.circuit_breaker_threshold),
            circuit_breaker_cooldown=read_float(config, "circuit_breaker_cooldown", base.circuit_breaker_cooldown),
            structured_output_retries=read_int(config, "structured_output_retries", base.structured_output_retries),
            send_session_id=read_bool(config, "send_session_id", base.send_session_id),
        )


def env_or_config(
    config: Mapping[str, Any], key: str, names: Sequence[str] = (), *, env_wins: bool = False
) -> str | None:
    """Return a text of the config, else of the first set variable of `names`; None when it is nowhere.

    What was left as `${NAME}`, because the variable was not set when the plan was made, counts as not given.
    """
    given = config.get(key)
    text = str(given).strip() if given is not None else ""
    if text.startswith("${") and text.endswith("}"):
        text = ""
    found = next((value.strip() for name in names if (value := os.environ.get(name, "")).strip()), "")
    chosen = (found or text) if env_wins else (text or found)
    return chosen or None


def name_of_key(key: str | None, names: Sequence[str]) -> str | None:
    """Return the variable that holds a key: one of `names`, else any; None when no variable does.

    Without a key it is the variable that should hold one.
    """
    if key is None:
        return names[0] if names else None
    holding = sorted(name for name, value in os.environ.items() if value.strip() == key)
    own = next((name for name in names if name in holding), None)
    return own or (holding[0] if holding and len(key) >= _SHORTEST_KEY else None)


def read_bool(config: Mapping[str, Any], key: str, default: bool) -> bool:
    """Return a switch; texts such as "true" and "off", which wizards store, are understood."""
    value = config.get(key)
    if value is None or value == "":
        return default
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("true", "yes", "on", "1"):
        return True
    if word in ("false", "no", "off", "0"):
        return False
    raise ValueError(f"{key}: must be true or false, got {value!r}")


def read_int(config: Mapping[str, Any], key: str, default: int, *, least: int | None = 0) -> int:
    """Return a whole number of at least `least`."""
    value = config.get(key)
    if value is None or value == "":
        return default
    try:
        number = int(str(value))
    except ValueError:
        raise ValueError(f"{key}: must be a whole number, got {value!r}") from None
    if isinstance(value, bool) or (least is not None and number < least):
        raise ValueError(f"{key}: must be {least} or more, got {value!r}")
    return number


def read_float(config: Mapping[str, Any], key: str, default: float, *, above: float | None = None) -> float:
    """Return a number that is not negative, or greater than `above`."""
    value = config.get(key)
    if value is None or value == "":
        return default
    try:
        number = float(str(value))
    except ValueError:
        raise ValueError(f"{key}: must be a number, got {value!r}") from None
    if isinstance(value, bool) or not 0 <= number < float("inf") or (above is not None and number <= above):
        raise ValueError(f"{key}: must be {'greater than ' + str(above) if above is not None else '0 or more'}")
    return number


def read_choice(config: Mapping[str, Any], key: str, choices: Sequence[str], default: str | None) -> str | None:
    """Return one of the choices."""
    value = config.get(key)
    if value is None or value == "":
        return default
    if str(value) not in choices:
        raise ValueError(f"{key}: must be one of {', '.join(choices)}, got {value!r}")
    return str(value)
