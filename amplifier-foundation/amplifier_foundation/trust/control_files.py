"""Find the files of a project that decide which code runs and where credentials go, and hash their content."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from amplifier_foundation.errors import FoundationError
from amplifier_kit.guard.control_files import Use, project_rows

#: Folders that tools write into by themselves. A module that imports from one of them runs code that is not hashed.
_IGNORED: Final = frozenset(
    {".git", "node_modules", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"}
)
#: Compiled files of a project are never loaded (`amplifier_foundation.plan.import_path`); sources beside them may be.
_COMPILED: Final = "__pycache__"
#: More files than this cannot be configuration that a person has reviewed.
_MOST_FILES: Final = 10_000
#: Of a project that is a module itself, the files that are imported and those that say how it is built.
_BUILT_BY: Final = frozenset({"pyproject.toml", "setup.py", "setup.cfg"})
#: The folder itself, as a relative path.
_ITSELF: Final = "."


class ControlFileError(FoundationError):
    """A control file of a project cannot be read, so that what it decides is unknown."""

    code = "control_file_unreadable"


def control_file_hashes(folder: Path, more: Iterable[str] = ()) -> dict[str, str]:
    """Return the hash of each control file of a project, by its path relative to the folder; links are followed.

    `more` are relative paths that count too if they exist, of a folder all that is below it; of `.`, the project
    itself, what Python imports. Raises ControlFileError, naming the file, for one that cannot be read, and for a
    project with too many of them.
    """
    hashes: dict[str, str] = {}
    for relative in _control_files(folder, more):
        if relative not in hashes:
            hashes[relative] = _hashed(folder / relative)
        if len(hashes) > _MOST_FILES:
            raise ControlFileError(f"{folder}: more than {_MOST_FILES} control files: look for what fills .amplifier")
    return hashes


def covered_by(relative: str, more: Iterable[str]) -> bool:
    """Return whether what lies at a path of a project counts, in every one or as one of `more`."""
    trees = (row.path for row in project_rows(Use.TRUST) if row.is_tree)
    return any(_is_below(relative, tree) for tree in (*trees, *more))


def _is_below(relative: str, above: str) -> bool:
    return relative == above or relative.startswith(f"{above}/")


def _control_files(folder: Path, more: Iterable[str]) -> Iterator[str]:
    for row in project_rows(Use.TRUST):
        if row.is_tree:
            yield from _files_below(folder, folder / row.path)
            continue
        found = sorted(folder.glob(row.pattern)) if "*" in row.pattern else [folder / row.pattern]
        yield from (
            path.relative_to(folder).as_posix() for path in found if os.path.lexists(path) and not path.is_dir()
        )
    for relative in more:
        if relative == _ITSELF:
            yield from filter(_is_imported, _files_below(folder, folder))
        elif os.path.lexists(folder / relative):
            yield from _files_below(folder, folder / relative)


def _is_imported(relative: str) -> bool:
    from importlib.machinery import all_suffixes

    return relative.rpartition("/")[2] in _BUILT_BY or relative.endswith(tuple(all_suffixes()))


def _files_below(folder: Path, tree: Path) -> Iterator[str]:
    """Yield every file of a tree; a folder that is reached twice through links is entered once."""
    if os.path.lexists(tree) and not tree.is_dir():
        yield tree.relative_to(folder).as_posix()
        return
    entered: set[tuple[int, int]] = set()
    for path, folders, files in os.walk(tree, followlinks=True, onerror=_refuse):
        here = os.stat(path)
        if (here.st_dev, here.st_ino) in entered:
            folders.clear()
            continue
        entered.add((here.st_dev, here.st_ino))
        folders[:] = sorted(name for name in folders if name not in _IGNORED)
        is_cache = os.path.basename(path) == _COMPILED
        for name in sorted(files):
            # While it writes one, Python appends a number to its name.
            if not (is_cache and (name.endswith(".pyc") or re.search(r"\.pyc\.\d+$", name))):
                yield (Path(path) / name).relative_to(folder).as_posix()


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a missing tree has no files
        raise ControlFileError(f"{error.filename}: cannot be read: {error.strerror or error}") from error


def _hashed(path: Path) -> str:
    import hashlib

    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return "special"  # a pipe or a device: reading it could wait for ever
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return "missing"  # a link to nothing: what it will lead to is not known
    except OSError as error:
        raise ControlFileError(f"{path}: cannot be read: {error.strerror or error}") from error
