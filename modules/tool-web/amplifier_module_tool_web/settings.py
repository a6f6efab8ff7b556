"""Read the config."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """What a bundle may set; the README has the table."""

    timeout: float = 10.0
    default_limit: int = 204800
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    extract_text: bool = True
    max_results: int = 5
    private_hosts: tuple[str, ...] = ()
    max_redirects: int = 5
    max_bytes: int = 10485760
    max_save_bytes: int = 104857600
    working_dir: str | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Settings:
        """Read a config; raise ValueError that names the key and what was expected.

        Keys that nobody knows are ignored with a warning: the bundle may be written for another version.
        """
        known = {field.name: _READERS[str(field.type)] for field in fields(cls)}
        given = {key: value for key, value in dict(config or {}).items() if value is not None}
        unknown = sorted(str(key) for key in given if key not in known)
        if unknown:
            logger.warning("tool-web: unknown config keys %s are ignored", unknown)
        return cls(**{key: known[key](key, value) for key, value in given.items() if key in known})


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(key, "true or false", value)
    return value


def _whole(key: str, value: Any) -> int:
    least = 0 if key == "max_redirects" else 1
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _wrong(key, f"a whole number of at least {least}", value)
    return value


def _seconds(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 86400:
        raise _wrong(key, "a number of seconds above 0", value)
    return float(value)


def _texts(key: str, value: Any) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) and item.strip() for item in items):
        raise _wrong(key, "a list of host names", value)
    return tuple(item.strip().lower() for item in items)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(key, "a text", value)
    return value


def _wrong(key: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"tool-web: config key {key!r} must be {expected}, not {value!r}")


_READERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "bool": _flag,
    "int": _whole,
    "float": _seconds,
    "tuple[str, ...]": _texts,
    "str | None": _text,
}
