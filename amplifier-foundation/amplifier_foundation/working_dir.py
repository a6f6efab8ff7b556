"""Read and set the folder that a session works in, which modules take paths to be relative to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

__all__ = ["WORKING_DIR_CAPABILITY", "get_working_dir", "set_working_dir"]

#: The capability that holds the folder as text; registered before modules are mounted.
WORKING_DIR_CAPABILITY: Final = "session.working_dir"


def get_working_dir(coordinator: Any, fallback: Path | str | None = None) -> Path:
    """Return the working folder of a session, `fallback` if it has none, else the folder of the process."""
    folder = coordinator.get_capability(WORKING_DIR_CAPABILITY)
    if folder:
        return Path(folder)
    return Path(fallback) if fallback is not None else Path.cwd()


def set_working_dir(coordinator: Any, path: Path | str) -> None:
    """Set the working folder of a session."""
    coordinator.register_capability(WORKING_DIR_CAPABILITY, str(path))
