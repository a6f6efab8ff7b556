"""Find the instruction files of projects and users for agents: AGENTS.md, else CLAUDE.md."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from amplifier_foundation.paths import Home

__all__ = ["find_instructions", "repository_root"]

_NAMES: Final = ("AGENTS.md", "CLAUDE.md")


def find_instructions(project: Path, home: Home) -> list[Path]:
    """Return the instruction files that apply to `project`, the nearest first, the user's own last; each once.

    One file per folder, AGENTS.md before CLAUDE.md, from the project up to the root of its repository; only that of the
    project if it is in none. A repository does not count if its `.git` belongs to anyone but the owner of the project,
    this user or root, since anyone who can write to a parent folder could give instructions; nor if it contains the
    home folder. A file that cannot be read is returned too, so that reading it reports why.
    """
    folders = _folders(project.resolve())
    found = [_file_in(folder, _NAMES) for folder in folders]
    found.append(_file_in(home.path, _NAMES[:1]))
    return list(dict.fromkeys(path for path in found if path is not None))


def repository_root(project: Path) -> Path:
    """Return the root of the repository of `project`, or the project itself if it is in none.

    A repository that contains the home folder does not count.
    """
    return _folders(project.resolve())[-1]


def _folders(project: Path) -> list[Path]:
    """Return the project and the folders above it, up to the one with `.git`."""
    from amplifier_kit.guard.processes.programs import holds_home

    folders = [project]
    for folder in (project, *project.parents):
        if folder != project:
            if holds_home(str(folder)):
                break
            folders.append(folder)
        if os.path.lexists(folder / ".git"):
            return folders if _is_ours(folder / ".git", project) else [project]
    return [project]


def _is_ours(repository: Path, project: Path) -> bool:
    try:
        owner = repository.stat().st_uid
        return owner in (project.stat().st_uid, os.geteuid(), 0)
    except OSError:
        return False  # deleted, or not readable


def _file_in(folder: Path, names: tuple[str, ...]) -> Path | None:
    for name in names:
        path = folder / name
        if os.path.lexists(path) and not path.is_dir():
            return path
    return None
