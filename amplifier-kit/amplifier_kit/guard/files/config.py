"""The config keys that all tools on files share, and what they mean in a session."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from amplifier_kit.config import Config, Paths, PathText
from amplifier_kit.guard.files.roots import Roots

__all__ = ["FileAccess", "FileConfig"]


class FileConfig(Config):
    """Where relative paths begin, and where files may be read and written."""

    working_dir: PathText | None = Field(
        None, description="Where relative paths begin; null for the session's working directory."
    )
    allowed_read_paths: Paths | None = Field(None, description="Where files may be read; null for everywhere.")
    allowed_write_paths: Paths | None = Field(
        None, description="Where files may be written; null for the working directory."
    )
    denied_write_paths: Paths | None = Field(None, description="Where files must not be written, whatever is allowed.")


@dataclass(frozen=True)
class FileAccess:
    """What a config means in a session, as absolute paths."""

    working_dir: Path
    #: Where relative paths begin for everything else in the session, its policies among them.
    session_dir: Path
    reading: Roots
    writing: Roots

    @classmethod
    def of(cls, config: FileConfig, coordinator: Any) -> Self:
        """Resolve a config; raise ValueError when the session's working directory is not a path."""
        session_dir = _session_dir(coordinator)
        base = session_dir if config.working_dir is None else _absolute(config.working_dir, session_dir)
        write = ["."] if config.allowed_write_paths is None else config.allowed_write_paths
        return cls(
            working_dir=base,
            session_dir=session_dir,
            reading=Roots.resolved(config.allowed_read_paths, (), base),
            writing=Roots.resolved(write, config.denied_write_paths or (), base),
        )


def _session_dir(coordinator: Any) -> Path:
    ask = getattr(coordinator, "get_capability", None)
    given = ask("session.working_dir") if callable(ask) else None
    if given is None:
        return Path.cwd()
    if not isinstance(given, str | Path) or not str(given) or "\0" in str(given):
        raise ValueError(f"the capability session.working_dir must be a path, got {given!r}")
    return _absolute(given, Path.cwd())


def _absolute(path: str | Path, base: Path) -> Path:
    return Path(os.path.abspath(base / Path(path).expanduser()))
