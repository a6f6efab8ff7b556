"""Read the config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

#: Streamed pieces of text: the whole text is in the event that ends the stream.
EXCLUDED = ("llm:stream_*delta",)


@dataclass(frozen=True)
class Settings:
    """What a bundle may set."""

    #: When the handler runs; observers come last.
    priority: int = 100
    #: Record every event, whoever announced it; else the canonical ones, `additional_events` and those of the audit.
    auto_discover: bool = True
    additional_events: tuple[str, ...] = ()
    #: Patterns of events that are not recorded; those of the audit always are.
    exclude_events: tuple[str, ...] = EXCLUDED
    #: Leave out the field `raw`, in which providers put what they sent and received.
    strip_raw: bool = False
    #: Where the log lies when the app does not write one itself; None for the usual place.
    session_log_template: str | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Settings:
        """Read a config; raise ValueError that names the key and what was expected. Other keys are ignored."""
        given = dict(config or {})
        return cls(
            priority=_integer(given, "priority", cls.priority),
            auto_discover=_flag(given, "auto_discover", cls.auto_discover),
            additional_events=_names(given, "additional_events", cls.additional_events),
            exclude_events=_names(given, "exclude_events", cls.exclude_events),
            strip_raw=_flag(given, "strip_raw", cls.strip_raw),
            session_log_template=_text(given, "session_log_template"),
        )


def unknown_keys(config: Mapping[str, Any] | None) -> list[str]:
    """Return the keys of a config that mean nothing here."""
    known = {field.name for field in fields(Settings)}
    return sorted(str(key) for key in (config or {}) if key not in known)


def _integer(config: Mapping[str, Any], key: str, default: int) -> int:
    value = config.get(key)
    if value is None:
        return default
    try:
        return int(value)
    except (TypeError, ValueError):
        raise _wrong(key, "a whole number", value) from None


def _flag(config: Mapping[str, Any], key: str, default: bool) -> bool:
    value = config.get(key)
    if value is not None and not isinstance(value, bool):
        raise _wrong(key, "true or false", value)
    return default if value is None else value


def _names(config: Mapping[str, Any], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise _wrong(key, "a list of event names", value)
    return tuple(value)


def _text(config: Mapping[str, Any], key: str) -> str | None:
    value = config.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise _wrong(key, "a path", value)
    return value


def _wrong(key: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"hooks-logging: config key {key!r} must be {expected}, got {value!r}")
