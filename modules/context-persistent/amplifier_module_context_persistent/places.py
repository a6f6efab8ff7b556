"""Where the transcript of a session is stored."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from amplifier_kit.home import amplifier_home

__all__ = ["transcript_path", "working_dir"]

_FILE = "context-messages.jsonl"


def working_dir(configured: str | None, coordinator: Any) -> Path:
    """Return the base of relative paths: the configured folder, the session's working directory, or the process's."""
    given = configured or coordinator.get_capability("session.working_dir")
    return Path(given).expanduser().absolute() if given else Path.cwd()


def transcript_path(configured: str | None, coordinator: Any, base: Path) -> Path:
    """Return the transcript's path: the configured one, else in the session's folder.

    Raises ValueError for a session without an id.
    """
    if configured is not None:
        return base / Path(configured).expanduser()
    folder = coordinator.get_capability("session.dir")
    if folder:
        return Path(folder) / _FILE
    session_id: str = coordinator.session_id
    if not session_id:
        raise ValueError(
            "context-persistent: this session has no id, so its transcript has no default path: set transcript_path"
        )
    if session_id in (".", "..") or "/" in session_id or os.sep in session_id:
        raise ValueError(
            f"context-persistent: session id {session_id!r} cannot be the name of a folder: set transcript_path"
        )
    home = coordinator.get_capability("amplifier.home")
    folder = Path(home).expanduser() if home else amplifier_home()
    return folder / "projects" / _project(base) / "sessions" / session_id / _FILE


def _project(base: Path) -> str:
    """Name a project by its folder, and by a hash of the whole path, since names repeat."""
    resolved = base.resolve()
    return f"{resolved.name}-{sha256(str(resolved).encode()).hexdigest()[:8]}"
