"""Read the config."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, cast, get_args

logger = logging.getLogger(__name__)

Role = Literal["system", "user", "assistant"]
_ROLES: Final = get_args(Role)


@dataclass(frozen=True)
class Settings:
    """What a bundle may set."""

    #: Who speaks the reminder when there is no tool result to append it to.
    inject_role: Role = "user"
    #: When the handlers run; lower is earlier.
    priority: int = 10
    #: Tool calls other than `todo` in a row after which the model is reminded of that tool.
    recent_tool_threshold: int = 3

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Settings:
        """Read a config; raise ValueError that names the key and what was expected."""
        given = {key: value for key, value in (config or {}).items() if value is not None}
        unknown = sorted(set(given) - {field.name for field in fields(cls)})
        if unknown:
            logger.warning("hooks-todo-reminder: unknown config keys %s are ignored", unknown)
        role = given.get("inject_role", cls.inject_role)
        if role not in _ROLES:
            raise _wrong("inject_role", f"one of {', '.join(_ROLES)}", role)
        threshold = _integer(given, "recent_tool_threshold", cls.recent_tool_threshold)
        if threshold < 0:
            raise _wrong("recent_tool_threshold", "a whole number of at least 0", threshold)
        return cls(cast("Role", role), _integer(given, "priority", cls.priority), threshold)


def _integer(config: Mapping[str, Any], key: str, default: int) -> int:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(key, "a whole number", value)
    return value


def _wrong(key: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"hooks-todo-reminder: config key {key!r} must be {expected}, got {value!r}")
