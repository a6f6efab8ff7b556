"""Read the config."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from amplifier_module_tool_search.globs import GlobError, name_regex

logger = logging.getLogger(__name__)

Engine = Literal["auto", "rg", "python"]

#: Folders that tools make and nobody means, by name.
EXCLUSIONS: Final = (
    *(".git", ".hg", ".svn", "node_modules", "bower_components", ".venv", "venv", "__pycache__"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".eggs", "build", "dist"),
    *("target", ".next", ".cache"),
)


@dataclass(frozen=True)
class Limits:
    """How many entries an answer has when the call does not say."""

    files_with_matches: int = 200
    content: int = 500
    count: int = 200


@dataclass(frozen=True)
class GrepSettings:
    """What a bundle may set under `grep`."""

    max_file_size: int = 10 * 1024 * 1024
    timeout: float = 60.0
    exclusions: tuple[str, ...] = EXCLUSIONS
    default_limits: Limits = Limits()


@dataclass(frozen=True)
class GlobSettings:
    """What a bundle may set under `glob`."""

    max_results: int = 500
    timeout: float = 60.0
    exclusions: tuple[str, ...] = EXCLUSIONS


@dataclass(frozen=True)
class Settings:
    """What a bundle may set; the README has the table."""

    working_dir: str | None = None
    allowed_paths: tuple[str, ...] | None = None
    engine: Engine = "auto"
    grep: GrepSettings = field(default_factory=GrepSettings)
    glob: GlobSettings = field(default_factory=GlobSettings)

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Settings:
        """Read a config; raise ValueError that names the key and what was expected.

        `max_results` stands for every limit that is not set by itself. Keys that nobody knows are ignored with a
        warning: the bundle may be written for another version. null means the default.
        """
        given = {key: value for key, value in dict(config or {}).items() if value is not None}
        limit = _count("max_results", given.pop("max_results")) if "max_results" in given else None
        grep = _section("grep", given.pop("grep", {}), limit)
        glob = _section("glob", given.pop("glob", {}), limit)
        own = _read("", given, {"working_dir": _path, "allowed_paths": _paths, "engine": _engine})
        return cls(**own, grep=GrepSettings(**grep), glob=GlobSettings(**glob))


def _section(name: str, given: Any, limit: int | None) -> dict[str, Any]:
    values = {key: value for key, value in _mapping(name, given).items() if value is not None}
    if name == "glob":
        read = _read("glob.", values, {"max_results": _count, "timeout": _seconds, "exclusions": _names})
        return read if limit is None else {"max_results": limit, **read}
    every = {} if limit is None else dict.fromkeys(_LIMITS, limit)
    own = _mapping("grep.default_limits", values.pop("default_limits", {}))
    limits = every | _read("grep.default_limits.", own, _LIMITS)
    read = _read("grep.", values, {"max_file_size": _count, "timeout": _seconds, "exclusions": _names})
    return {**read, "default_limits": Limits(**limits)}


def _read(prefix: str, given: Mapping[str, Any], readers: Mapping[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    if unknown := sorted(str(key) for key in given if key not in readers):
        logger.warning("tool-search: unknown config keys %s are ignored", [prefix + key for key in unknown])
    return {key: readers[key](prefix + key, value) for key, value in given.items() if key in readers}


def _mapping(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(key, "a mapping", value)
    return dict(value)


def _count(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _wrong(key, "a whole number of at least 1", value)
    return value


def _seconds(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise _wrong(key, "a positive number of seconds", value)
    return float(value)


def _path(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise _wrong(key, "a path", value)
    return value


def _paths(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise _wrong(key, "a list of paths", value)
    return tuple(_path(key, path) for path in value)


def _names(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise _wrong(key, "a list of folder names", value)
    names = tuple(name.strip("/") for name in value)
    for name in names:
        try:
            name_regex(name)
        except GlobError as error:
            raise _wrong(key, f"a list of folder names ({error})", value) from None
        if not name or "/" in name:
            raise _wrong(key, "a list of folder names", value)
    return names


def _engine(key: str, value: Any) -> Any:
    if value not in get_args(Engine):
        raise _wrong(key, f"one of {', '.join(get_args(Engine))}", value)
    return value


_LIMITS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "files_with_matches": _count,
    "content": _count,
    "count": _count,
}


def _wrong(key: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"tool-search: config key {key!r} must be {expected}, got {value!r}")
