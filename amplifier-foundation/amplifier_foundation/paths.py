"""Know where things are: one home, moved as a whole by $AMPLIFIER_HOME, and one folder per session in it."""

from __future__ import annotations

from pathlib import Path

from amplifier_kit.log.location import amplifier_home as kit_home
from amplifier_kit.log.location import project_slug

__all__ = ["NoHomeError", "amplifier_home", "newest_session", "project_slug", "sessions_dir"]


class NoHomeError(Exception):
    """There is no folder to keep sessions in."""


def amplifier_home() -> Path:
    """Return `$AMPLIFIER_HOME`, else `~/.amplifier`; raise NoHomeError when neither can be told."""
    try:
        return kit_home().absolute()
    except RuntimeError as error:
        raise NoHomeError(
            "there is no home directory to keep sessions in (HOME is not set): set HOME or AMPLIFIER_HOME"
        ) from error


def sessions_dir(home: Path, project: Path) -> Path:
    """Return the folder that holds the sessions of one project."""
    return home / "projects" / project_slug(project) / "sessions"


def newest_session(home: Path, project: Path) -> Path | None:
    """Return the folder of the project's session that was written to last, None when it has none."""
    logs = list(sessions_dir(home, project).glob("*/events.jsonl"))
    return max(logs, key=lambda log: log.stat().st_mtime_ns).parent if logs else None
