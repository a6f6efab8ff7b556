"""Read the config that all tools on files share."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from amplifier_kit.guard.files.roots import Roots

__all__ = ["FileSettings"]

logger = logging.getLogger(__name__)

_KEYS: Final = frozenset({"working_dir", "allowed_read_paths", "allowed_write_paths", "denied_write_paths"})


@dataclass(frozen=True)
class FileSettings:
    """Where relative paths begin, and where files may be read and written."""

    working_dir: Path
    #: Where they begin for everybody else in the session, its policies among them.
    session_dir: Path
    reading: Roots
    writing: Roots

    @classmethod
    def from_config(
        cls, module: str, config: Mapping[str, Any] | None, coordinator: Any, *, other_keys: Collection[str] = ()
    ) -> FileSettings:
        """Read a config; raise ValueError that names the key and what was expected.

        Keys that nobody knows are ignored with a warning: the bundle may be written for another version.
        """
        given = dict(config or {})
        unknown = sorted(map(str, set(given) - _KEYS - set(other_keys)))
        if unknown:
            logger.warning("%s: unknown config keys %s are ignored", module, unknown)
        session_dir = _session_dir(module, coordinator)
        base = _directory(
            module, session_dir if given.get("working_dir") is None else given["working_dir"], session_dir
        )
        read = _paths(module, "allowed_read_paths", given)
        write = _paths(module, "allowed_write_paths", given)
        denied = _paths(module, "denied_write_paths", given)
        return cls(
            working_dir=base,
            session_dir=session_dir,
            reading=Roots.resolved(read, (), base),
            writing=Roots.resolved(["."] if write is None else write, denied or (), base),
        )


def _session_dir(module: str, coordinator: Any) -> Path:
    ask = getattr(coordinator, "get_capability", None)
    given = ask("session.working_dir") if callable(ask) else None
    return Path.cwd() if given is None else _directory(module, given, Path.cwd())


def _directory(module: str, given: Any, base: Path) -> Path:
    if not isinstance(given, (str, Path)) or not str(given) or "\0" in str(given):
        raise _wrong(module, "working_dir", "a path", given)
    return Path(os.path.abspath(base / Path(given).expanduser()))


def _paths(module: str, key: str, given: Mapping[str, Any]) -> list[str] | None:
    value = given.get(key)
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(path, (str, Path)) and str(path) and "\0" not in str(path) for path in value
    ):
        raise _wrong(module, key, "a list of paths", value)
    return [str(path) for path in value]


def _wrong(module: str, key: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"{module}: config key {key!r} must be {expected}, got {value!r}")
