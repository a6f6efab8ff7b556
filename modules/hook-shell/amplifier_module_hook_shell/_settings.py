"""Read the config."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, cast

logger = logging.getLogger(__name__)

Policy = Literal["deny", "allow"]
_POLICIES: Final = ("deny", "allow")


@dataclass(frozen=True)
class Settings:
    """What a bundle may set."""

    #: Hooks, as under `hooks` in a hooks file.
    hooks: Mapping[str, Any] = field(default_factory=dict)
    #: More hooks files; relative ones are relative to the working directory.
    files: tuple[str, ...] = ()
    #: Whether the project's `.claude/settings.json` and `.claude/settings.local.json` are read.
    claude_settings: bool = True
    #: Seconds a hook may take when it does not say itself.
    timeout: float = 30.0
    #: The verdict when a hook is not done in time; None: deny where something waits for the answer.
    on_timeout: Policy | None = None
    #: The verdict when a hook cannot be run, is killed, or answers what nobody understands.
    on_error: Policy | None = None
    #: When the handlers run; lower is earlier.
    priority: int = 20
    #: Variables named like secrets that hooks get nevertheless.
    pass_env: tuple[str, ...] = ()
    #: Bytes of each stream of a hook that are looked at.
    max_output: int = 64 * 1024
    #: The project, when it is not the session's working directory.
    working_dir: str | None = None
    #: The sandbox of hooks that the project brings, when it is not the session's.
    sandbox: Any = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Settings:
        """Read a config; raise ValueError that names the key and what was expected."""
        given = {key: value for key, value in (config or {}).items() if value is not None}
        unknown = sorted(set(given) - {known.name for known in fields(cls)})
        if unknown:
            logger.warning("hook-shell: unknown config keys %s are ignored", unknown)
        hooks = given.get("hooks", {})
        if not isinstance(hooks, Mapping):
            raise wrong("hooks", "a mapping from events to lists", hooks)
        working_dir = given.get("working_dir")
        if working_dir is not None and not isinstance(working_dir, str):
            raise wrong("working_dir", "a path", working_dir)
        return cls(
            hooks=hooks,
            files=_texts(given, "files"),
            claude_settings=_flag(given, "claude_settings", cls.claude_settings),
            timeout=seconds("timeout", given.get("timeout", cls.timeout)),
            on_timeout=policy("on_timeout", given.get("on_timeout")),
            on_error=policy("on_error", given.get("on_error")),
            priority=_integer(given, "priority", cls.priority, -1_000_000),
            pass_env=_texts(given, "pass_env"),
            max_output=_integer(given, "max_output", cls.max_output, 1),
            working_dir=working_dir,
            sandbox=given.get("sandbox"),
        )


def seconds(key: str, value: Any) -> float:
    """Return a time; raise ValueError when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise wrong(key, "a number of seconds above 0", value)
    return float(value)


def policy(key: str, value: Any) -> Policy | None:
    """Return what to do without an answer, None for nothing said; raise ValueError for another word."""
    if value is not None and value not in _POLICIES:
        raise wrong(key, "'deny' or 'allow'", value)
    return cast("Policy | None", value)


def wrong(key: str, expected: str, value: Any) -> ValueError:
    """Return the error for a value that makes no sense."""
    return ValueError(f"hook-shell: {key!r} must be {expected}, got {value!r}")


def _integer(config: Mapping[str, Any], key: str, default: int, least: int) -> int:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise wrong(key, f"a whole number of at least {least}", value)
    return value


def _flag(config: Mapping[str, Any], key: str, default: bool) -> bool:
    value = config.get(key, default)
    if not isinstance(value, bool):
        raise wrong(key, "true or false", value)
    return value


def _texts(config: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = config.get(key, ())
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item for item in value):
        raise wrong(key, "a list of texts", value)
    return tuple(value)
