"""Find the instructions that projects and users keep for agents: AGENTS.md, or CLAUDE.md where there is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from amplifier_foundation.paths import Home

__all__ = ["find_instructions", "repository_root"]

_NAMES: Final = ("AGENTS.md", "CLAUDE.md")


def find_instructions(project: Path, home: Home) -> list[Path]:
    """Return the instruction files that hold in `project`, the nearest first, the user's own last; each once.

    One file per folder, AGENTS.md before CLAUDE.md, from the project up to the root of its repository; only of the
    project itself when it is in none. A repository is not believed in when its `.git` belongs to a stranger, that is to
    someone who is neither the owner of the project, nor this user, nor root: who can write to a folder above must not
    be able to instruct. Nor is one that is as wide as the home folder, or wider. A file that is there counts even if it
    cannot be read, so that reading it tells about it.
    """
    folders = _folders(project.resolve())
    found = [_file_in(folder, _NAMES) for folder in folders]
    found.append(_file_in(home.path, _NAMES[:1]))
    return list(dict.fromkeys(path for path in found if path is not None))


def repository_root(project: Path) -> Path:
    """Return the root of the repository that `project` is in, the project itself when it is in none.

    One as wide as the home folder is none: what lies there is not the project's.
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
        return False  # gone, or nothing that may be looked at


def _file_in(folder: Path, names: tuple[str, ...]) -> Path | None:
    for name in names:
        path = folder / name
        if os.path.lexists(path) and not path.is_dir():
            return path
    return None
