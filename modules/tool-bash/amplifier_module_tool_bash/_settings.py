"""Read the config."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from amplifier_kit.guard.sandbox import SandboxConfig

logger = logging.getLogger(__name__)

PROFILES: Final = ("strict", "standard", "permissive", "unrestricted")


@dataclass(frozen=True)
class Settings:
    """What a bundle may set; the README has the table."""

    working_dir: str = "."
    timeout: float = 30
    require_approval: bool = True
    safety_profile: str = "strict"
    allowed_commands: tuple[str, ...] = ()
    denied_commands: tuple[str, ...] = ()
    safety_overrides: Mapping[str, tuple[str, ...]] | None = None
    max_output_bytes: int = 100_000
    max_concurrent: int | None = None
    pass_env: tuple[str, ...] = ()
    #: As it is written; what it means depends on the session too.
    sandbox: str | bool | Mapping[str, Any] | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Settings:
        """Read a config; raise ValueError that names the key and what was expected.

        Keys that nobody knows are ignored with a warning: the bundle may be written for another version.
        """
        given = {key: value for key, value in (config or {}).items() if value is not None}
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(given) - known, key=str)
        if unknown:
            logger.warning("tool-bash: unknown config keys %s are ignored", unknown)
        return cls(**{key: _READERS[key](key, value) for key, value in given.items() if key in known})

    def overrides(self, kind: str) -> tuple[str, ...]:
        """Return the patterns of `safety_overrides` that `allow` or `block`."""
        return (self.safety_overrides or {}).get(kind, ())


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(key, "true or false", value)
    return value


def _seconds(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise _wrong(key, "a positive number of seconds", value)
    return value


def _count(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _wrong(key, "a whole number of at least 1", value)
    return value


def _path(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise _wrong(key, "a path", value)
    return value


def _profile(key: str, value: Any) -> str:
    if value not in PROFILES:
        raise _wrong(key, f"one of {', '.join(PROFILES)}", value)
    return str(value)


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) and text.strip() for text in value):
        raise _wrong(key, "a list of texts that are not empty", value)
    return tuple(value)


def _overrides(key: str, value: Any) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, Mapping) or not set(value) <= {"allow", "block"}:
        raise _wrong(key, "a mapping with the keys allow and block", value)
    return {kind: _texts(f"{key}.{kind}", texts) for kind, texts in value.items() if texts is not None}


def _sandbox(key: str, value: Any) -> Any:
    try:
        SandboxConfig.from_config(value)
    except ValueError as error:
        raise ValueError(f"tool-bash: {error}") from None
    return value


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "working_dir": _path,
    "timeout": _seconds,
    "require_approval": _flag,
    "safety_profile": _profile,
    "allowed_commands": _texts,
    "denied_commands": _texts,
    "safety_overrides": _overrides,
    "max_output_bytes": _count,
    "max_concurrent": _count,
    "pass_env": _texts,
    "sandbox": _sandbox,
}


def _wrong(key: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"tool-bash: config key {key!r} must be {expected}, got {value!r}")
