"""Read the config."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """What a bundle may set; the README has the table."""

    priority: int = 0
    working_dir: str | None = None
    include_session: bool = True
    include_datetime: bool = True
    datetime_include_timezone: bool = False
    include_git: bool = True
    git_timeout: float = 1.0
    git_include_branch: bool = True
    git_include_main_branch: bool = True
    git_include_status: bool = True
    git_include_commits: int = 5
    git_status_include_untracked: bool = True
    git_status_max_lines: int | None = 100
    git_status_max_tracked: int | None = 50
    git_status_max_untracked: int | None = 20
    git_status_enable_path_filtering: bool = True
    git_status_tier1_patterns_extend: tuple[str, ...] = ()
    git_status_tier2_patterns_extend: tuple[str, ...] = ()
    git_status_tier2_limit: int | None = 10
    git_status_show_filter_summary: bool = True

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Settings:
        """Read a config; raise ValueError that names the key and what was expected.

        Keys that nobody knows are ignored with a warning: the bundle may be written for another version.
        """
        given = dict(config or {})
        known = {field.name: _READERS[str(field.type)] for field in fields(cls)}
        unknown = sorted(set(given) - set(known))
        if unknown:
            logger.warning("hooks-status-context: unknown config keys %s are ignored", unknown)
        read = {key: known[key](key, value) for key, value in given.items() if key in known}
        return cls(**{key: value for key, value in read.items() if value is not _DEFAULT})


#: What a reader returns for null where null has no meaning of its own.
_DEFAULT = object()


def _flag(key: str, value: Any) -> Any:
    if value is None:
        return _DEFAULT
    if not isinstance(value, bool):
        raise _wrong(key, "true or false", value)
    return value


def _integer(key: str, value: Any) -> Any:
    if value is None:
        return _DEFAULT
    if key == "git_include_commits" and isinstance(value, bool):
        return _DEFAULT if value else 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(key, "a whole number", value)
    if value < 0 and key != "priority":
        raise _wrong(key, "a whole number of at least 0", value)
    return value


def _limit(key: str, value: Any) -> Any:
    return None if value is None else _integer(key, value)


def _seconds(key: str, value: Any) -> Any:
    if value is None:
        return _DEFAULT
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise _wrong(key, "a positive number of seconds", value)
    return float(value)


def _path(key: str, value: Any) -> Any:
    if value is not None and (not isinstance(value, str) or not value or "\0" in value):
        raise _wrong(key, "a path", value)
    return value


def _patterns(key: str, value: Any) -> Any:
    if value is None:
        return _DEFAULT
    if not isinstance(value, (list, tuple)) or not all(isinstance(pattern, str) and pattern for pattern in value):
        raise _wrong(key, "a list of patterns", value)
    return tuple(value)


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "bool": _flag,
    "int": _integer,
    "int | None": _limit,
    "float": _seconds,
    "str | None": _path,
    "tuple[str, ...]": _patterns,
}


def _wrong(key: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"hooks-status-context: config key {key!r} must be {expected}, got {value!r}")
