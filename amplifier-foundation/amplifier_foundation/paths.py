"""Know where things are: one home, moved as a whole by $AMPLIFIER_HOME, and one folder per session in it."""

from __future__ import annotations

from pathlib import Path

from amplifier_kit.log.location import amplifier_home as kit_home
from amplifier_kit.log.location import project_slug

__all__ = ["NoHomeError", "amplifier_home", "find_sessions", "newest_session", "project_slug", "sessions_dir"]


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
    written = {log.parent: _written_at(log) for log in sessions_dir(home, project).glob("*/events.jsonl")}
    return max(written, key=lambda folder: written[folder]) if written else None


def find_sessions(home: Path, project: Path, beginning: str) -> list[Path]:
    """Return the folders of the sessions whose id starts with `beginning`: the project's, else those of all projects.

    An id that is given in full is found even when it is the beginning of another.
    """
    here = _starting_with(sessions_dir(home, project), beginning)
    if here or not beginning:
        return here
    everywhere = sorted((home / "projects").glob("*/sessions"))
    return [folder for sessions in everywhere for folder in _starting_with(sessions, beginning)]


def _starting_with(sessions: Path, beginning: str) -> list[Path]:
    try:
        folders = sorted(folder for folder in sessions.iterdir() if folder.name.startswith(beginning))
    except OSError:
        return []  # no sessions there, or none that may be seen
    return [folder for folder in folders if folder.name == beginning] or folders


def _written_at(log: Path) -> int:
    try:
        return log.stat().st_mtime_ns
    except OSError:
        return 0  # deleted just now
