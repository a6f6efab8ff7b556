"""Read what a plan says about handing work over, and say clearly what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

__all__ = ["SETTING_KEYS", "DelegationSettings", "read_count", "read_flag", "read_mapping", "unknown_keys"]

_TIMEOUT: Final = 3600.0
_HEARTBEAT: Final = 30.0
_MAX_PARALLEL: Final = 10
_MAX_DEPTH: Final = 5
_RESPONSE_LIMIT: Final = 100_000
_UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationSettings:
    """Hold the limits of handing work over; every one has a key of the same name."""

    #: Seconds that a child may take; None for no limit.
    timeout: float | None = _TIMEOUT
    #: Seconds between signs of life while a child works; None for none.
    heartbeat_interval: float | None = _HEARTBEAT
    #: Children of this session that may work at the same time.
    max_parallel: int = _MAX_PARALLEL
    #: Sessions that may stand below the first one, one under the other.
    max_recursion_depth: int = _MAX_DEPTH
    #: Characters of an answer that are given back.
    response_limit: int = _RESPONSE_LIMIT
    exclude_tools: tuple[str, ...] | None = None
    inherit_tools: tuple[str, ...] | None = None
    exclude_hooks: tuple[str, ...] | None = None
    inherit_hooks: tuple[str, ...] | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, exclude_tools: Sequence[str], at: str = "") -> Self:
        """Read a mapping; `exclude_tools` holds when it says nothing of tools. Raises ValueError that names the key."""
        return cls(
            timeout=_seconds(config, "timeout", _TIMEOUT, at),
            heartbeat_interval=_seconds(config, "heartbeat_interval", _HEARTBEAT, at),
            max_parallel=read_count(config, "max_parallel", _MAX_PARALLEL, at, least=1),
            max_recursion_depth=read_count(config, "max_recursion_depth", _MAX_DEPTH, at),
            response_limit=read_count(config, "response_limit", _RESPONSE_LIMIT, at, least=1000),
            exclude_tools=_names(config, "exclude_tools", at)
            if "exclude_tools" in config or "inherit_tools" in config
            else tuple(exclude_tools),
            inherit_tools=_names(config, "inherit_tools", at),
            exclude_hooks=_names(config, "exclude_hooks", at),
            inherit_hooks=_names(config, "inherit_hooks", at),
        )

    def tool_inheritance(self) -> dict[str, list[str]] | None:
        """Return what a child gets of the tools; None when it gets all."""
        return _inheritance(exclude_tools=self.exclude_tools, inherit_tools=self.inherit_tools)

    def hook_inheritance(self) -> dict[str, list[str]] | None:
        """Return what a child gets of the hooks; None when it gets all."""
        return _inheritance(exclude_hooks=self.exclude_hooks, inherit_hooks=self.inherit_hooks)


SETTING_KEYS: Final = tuple(DelegationSettings.__dataclass_fields__)


def unknown_keys(config: Mapping[str, Any], known: Sequence[str], at: str = "") -> list[str]:
    """Return a line for each key that does not exist, with the nearest one that does."""
    import difflib

    found = []
    for key in config:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean '{at}{near[0]}'?" if near else f"there are {', '.join(known)}"
            found.append(f"unknown key '{at}{key}' is ignored: {hint}")
    return found


def read_mapping(config: Mapping[str, Any], key: str, at: str = "") -> Mapping[str, Any]:
    """Return a mapping, empty when it is not given; raises ValueError for anything else."""
    value = config.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{at}{key} must be a mapping, got {value!r}")
    return value


def read_flag(config: Mapping[str, Any], key: str, default: bool, at: str = "") -> bool:
    """Return true or false; raises ValueError for anything else."""
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ValueError(f"{at}{key} must be true or false, got {value!r}")
    return value


def read_count(config: Mapping[str, Any], key: str, default: int, at: str = "", *, least: int = 0) -> int:
    """Return a whole number of at least `least`; raises ValueError for anything else."""
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{at}{key} must be a whole number of at least {least}, got {value!r}")
    return value


def _seconds(config: Mapping[str, Any], key: str, default: float, at: str) -> float | None:
    """Return seconds; None for an explicit null or -1, which mean that there is no limit."""
    if key not in config:
        return default
    value = config[key]
    if value is None or value == _UNLIMITED:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError(f"{at}{key} must be a number of seconds above 0, or null for no limit, got {value!r}")
    return float(value)


def _names(config: Mapping[str, Any], key: str, at: str) -> tuple[str, ...] | None:
    value = config.get(key)
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{at}{key} must be a list of module names, got {value!r}")
    return tuple(value)


def _inheritance(**given: tuple[str, ...] | None) -> dict[str, list[str]] | None:
    said = {key: list(names) for key, names in given.items() if names is not None}
    return said or None
