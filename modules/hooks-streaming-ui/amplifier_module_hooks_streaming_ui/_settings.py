"""Read the config."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

logger = logging.getLogger(__name__)

_SECTION: Final = "ui"


@dataclass(frozen=True)
class Settings:
    """What a bundle may set: `priority`, and the others under `ui`."""

    #: When the handlers run; observers come last, so that they show what hooks made of an event.
    priority: int = 100
    #: Show what the model thinks, while it streams in if it does.
    show_thinking_stream: bool = True
    #: Show the answer too; apps usually do that themselves.
    show_text_stream: bool = False
    #: Lines of a tool's input and of its result; None for all.
    show_tool_lines: int | None = 5
    #: Show what each answer of the model used.
    show_token_usage: bool = True

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Settings:
        """Read a config; raise ValueError that names the key and what was expected.

        `ui: {show_tool_lines: 3}` and `ui.show_tool_lines: 3` mean the same. Keys that nobody knows are ignored with a
        warning.
        """
        given = _flattened(config or {})
        read: dict[str, Any] = {}
        for key, value in given.items():
            reader = _READERS.get(key)
            if reader is None:
                logger.warning("hooks-streaming-ui: unknown config key %r is ignored", key)
            elif value is not None or key == f"{_SECTION}.show_tool_lines":
                read[key.rpartition(".")[2]] = reader(key, value)
        return cls(**read)


def _flattened(config: Mapping[str, Any]) -> dict[str, Any]:
    section = config.get(_SECTION)
    if section is not None and not isinstance(section, Mapping):
        raise _wrong(_SECTION, "a section of keys", section)
    flat = {str(key): value for key, value in config.items() if key != _SECTION}
    return flat | {f"{_SECTION}.{key}": value for key, value in (section or {}).items()}


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(key, "true or false", value)
    return value


def _integer(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(key, "a whole number", value)
    return value


def _lines(key: str, value: Any) -> int | None:
    if value is not None and _integer(key, value) < 0:
        raise _wrong(key, "a whole number of at least 0", value)
    number: int | None = value
    return number


_READERS: Final = {
    "priority": _integer,
    f"{_SECTION}.show_thinking_stream": _flag,
    f"{_SECTION}.show_text_stream": _flag,
    f"{_SECTION}.show_tool_lines": _lines,
    f"{_SECTION}.show_token_usage": _flag,
}


def _wrong(key: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"hooks-streaming-ui: config key {key!r} must be {expected}, got {value!r}")
