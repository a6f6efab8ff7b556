"""Find out where the transcript of a session lives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

__all__ = ["transcript_path", "working_dir"]

_FILE = "context-messages.jsonl"


def working_dir(config: Mapping[str, Any], coordinator: Any) -> Path:
    """Return what relative paths start from: config `working_dir`, the session's working directory, or ours."""
    given = config.get("working_dir") or coordinator.get_capability("session.working_dir")
    return Path(given).expanduser().absolute() if given else Path.cwd()


def transcript_path(config: Mapping[str, Any], coordinator: Any, base: Path) -> Path:
    """Return the transcript's path: config `transcript_path`, else in the session's folder, wherever that is.

    Raises ValueError for a path that is no text and for a session without an id.
    """
    given = config.get("transcript_path")
    if given is not None:
        if not isinstance(given, (str, os.PathLike)) or not os.fspath(given):
            raise ValueError(f"context-persistent: config transcript_path must be a path, got {given!r}")
        return base / Path(given).expanduser()
    folder = coordinator.get_capability("session.dir")
    if folder:
        return Path(folder) / _FILE
    session_id: str = coordinator.session_id
    if not session_id:
        raise ValueError(
            "context-persistent: this session has no id, so there is no place for its transcript: set transcript_path"
        )
    if session_id in (".", "..") or "/" in session_id or os.sep in session_id:
        raise ValueError(
            f"context-persistent: session id {session_id!r} cannot be the name of a folder: set transcript_path"
        )
    return _home(coordinator) / "projects" / _project(base) / "sessions" / session_id / _FILE


def _home(coordinator: Any) -> Path:
    given = coordinator.get_capability("amplifier.home") or os.environ.get("AMPLIFIER_HOME")
    return Path(given).expanduser() if given else Path.home() / ".amplifier"


def _project(base: Path) -> str:
    """Name a project by its folder, and by a hash of the whole path, since names repeat."""
    resolved = base.resolve()
    return f"{resolved.name}-{sha256(str(resolved).encode()).hexdigest()[:8]}"
