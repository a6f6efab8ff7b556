"""Keep modules from writing the control files of a project: a path that a config names may lead to one of them.

Tools ask before they write. A module that writes a transcript, a recording or a log does not, so it refuses.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from amplifier_kit.guard.control_files import IN_PROJECT, ControlFile, git_folders_of, is_git_folder

_GIT: Final = ".git"
_ANYWHERE: Final = "**/"


def refuse_control_file(path: Path, coordinator: Any) -> None:
    """Raise PermissionError, which names the file, when a path is or leads to a control file of the session's project.

    To be called right before the file is opened: a link may have come into being since the last time.
    """
    project = coordinator.get_capability("session.working_dir") or os.getcwd()
    if is_control_file(path, project, coordinator.get_capability("session.control_files") or ()):
        message = "it decides what sessions or git run, so no module writes it"
        raise PermissionError(errno.EACCES, message, str(path))


def is_control_file(path: str | Path, project: str | Path, more: Iterable[str | Path] = ()) -> bool:
    """Tell whether a path is, or leads over links to, what decides what sessions or git run in a project.

    That is every row of the table, in the project and in the folders below it, everything in a folder of git, and what
    is in `more`, files and folders.
    """
    here = os.path.realpath(project)
    others = [os.path.realpath(each) for each in (*git_folders_of(here), *more)]
    for each in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
        if any(_is_below(each, other) for other in others):
            return True
        for root in dict.fromkeys((here, os.path.abspath(project))):
            if _is_below(each, root) and _is_in_table(root, os.path.relpath(each, root)):
                return True
    return False


def _is_in_table(root: str, relative: str) -> bool:
    # Where upper and lower case are the same, `.GIT` is the folder of git.
    parts = relative.casefold().split("/")
    if _GIT in parts or any(_matches(row, parts) for row in IN_PROJECT):
        return True
    folders = relative.split("/")[:-1]
    return any(is_git_folder(os.path.join(root, *folders[:depth])) for depth in range(len(folders) + 1))


def _matches(row: ControlFile, parts: list[str]) -> bool:
    """Tell whether a row means a path; what begins with a dot counts in every folder, which may be a project too."""
    wanted = row.path.removeprefix(_ANYWHERE).casefold().split("/")
    is_anywhere = row.pattern.startswith((".", _ANYWHERE))
    for start in range(len(parts) if is_anywhere else 1):
        found = parts[start:]
        is_long_enough = len(found) >= len(wanted) if row.is_tree else len(found) == len(wanted)
        if is_long_enough and all(map(fnmatchcase, found, wanted)):
            return True
    return False


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(above.rstrip("/") + "/")
