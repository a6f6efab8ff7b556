"""Read the module's config."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

logger = logging.getLogger(__name__)

_TRUE: Final = ("1", "true", "yes", "on")


@dataclass(frozen=True)
class Retry:
    """How often a server is tried by itself, and when it is left alone."""

    attempts: int = 3
    initial_delay: float = 1.0
    max_delay: float = 60.0
    failures: int = 5
    cooldown: float = 60.0


@dataclass(frozen=True)
class Visibility:
    """What the model is told of the servers at each request."""

    enabled: bool = True
    inject_role: str = "user"
    max_servers_visible: int = 50
    ephemeral: bool = True
    priority: int = 20


@dataclass(frozen=True)
class Settings:
    """What a bundle may set; the README has the table."""

    servers: Mapping[str, Any] = field(default_factory=dict, repr=False)
    verbose_servers: bool = False
    server_log_dir: str = ""
    max_content_size: int = 50_000
    max_message_bytes: int = 8 << 20
    max_tools: int = 128
    connect_timeout: float = 30.0
    call_timeout: float = 60.0
    visibility: Visibility = Visibility()
    retry: Retry = Retry()
    sandbox: Any = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Settings:
        """Read a config; raise ValueError that names the key and what was expected.

        Keys that nobody knows are ignored with a warning: the bundle may be written for another version.
        """
        given = {key: value for key, value in (config or {}).items() if value is not None}
        if os.environ.get("AMPLIFIER_MCP_VERBOSE", "").lower() in _TRUE:
            given.setdefault("verbose_servers", True)
        return cls(**_read(cls, given, _READERS, ""))


def _read(kind: type[Any], given: Mapping[str, Any], readers: Mapping[str, _Reader], prefix: str) -> dict[str, Any]:
    known = {field.name for field in fields(kind)}
    if unknown := sorted(prefix + str(key) for key in given if key not in known):
        logger.warning("tool-mcp: unknown config keys %s are ignored", unknown)
    return {
        key: readers[key](prefix + key, value) for key, value in given.items() if key in known and value is not None
    }


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(key, "true or false", value)
    return value


def _number(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(key, "a whole number", value)
    return value


def _count(key: str, value: Any) -> int:
    if _number(key, value) < 1:
        raise _wrong(key, "a whole number of at least 1", value)
    return int(value)


def _seconds(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise _wrong(key, "a positive number of seconds", value)
    return value


def _path(key: str, value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise _wrong(key, "a path", value)
    return value


def _role(key: str, value: Any) -> str:
    if value not in ("user", "system"):
        raise _wrong(key, "user or system", value)
    return str(value)


def _servers(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"tool-mcp: config key {key!r} must be a mapping of servers, got {type(value).__name__}")
    return value


def _group(kind: type[Any], readers: Mapping[str, _Reader]) -> _Reader:
    def read(key: str, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _wrong(key, "a mapping", value)
        return kind(**_read(kind, value, readers, f"{key}."))

    return read


def _wrong(key: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"tool-mcp: config key {key!r} must be {expected}, got {value!r}")


_Reader = Callable[[str, Any], Any]
_READERS: Final[dict[str, _Reader]] = {
    "servers": _servers,
    "verbose_servers": _flag,
    "server_log_dir": _path,
    "max_content_size": _count,
    "max_message_bytes": _count,
    "max_tools": _count,
    "connect_timeout": _seconds,
    "call_timeout": _seconds,
    "sandbox": lambda key, value: value,
    "visibility": _group(
        Visibility,
        {
            "enabled": _flag,
            "inject_role": _role,
            "max_servers_visible": _count,
            "ephemeral": _flag,
            "priority": _number,
        },
    ),
    "retry": _group(
        Retry,
        {
            "attempts": _count,
            "initial_delay": _seconds,
            "max_delay": _seconds,
            "failures": _count,
            "cooldown": _seconds,
        },
    ),
}
