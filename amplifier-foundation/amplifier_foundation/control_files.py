"""Find the files of a project that decide which code runs and where credentials go, and know them by their content."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from amplifier_foundation.errors import FoundationError

#: Files beside each other that may name code: looked for by these patterns, one folder deep.
_PATTERNS: Final = (
    ".amplifier/*.yaml",
    ".amplifier/*.yml",
    ".amplifier/mcp.json",
    ".claude/settings*.json",
    ".amplifier/modules/*/pyproject.toml",
    "behaviors/*",
)
_NAMES: Final = (".mcp.json", "bundle.md", "bundle.yaml")
#: Folders of which every file counts, however deep.
_TREES: Final = (".amplifier/bundles", ".amplifier/hooks", ".amplifier/agents", ".claude/hooks")
#: What tools write into such folders by themselves.
_IGNORED: Final = frozenset({".git", "__pycache__"})
#: More files than these are no configuration that a person has looked at.
_MOST_FILES: Final = 10_000


class ControlFileError(FoundationError):
    """A control file of a project cannot be read, so nobody can say what it decides."""

    code = "control_file_unreadable"


def control_file_hashes(folder: Path, more: Iterable[str] = ()) -> dict[str, str]:
    """Return the hash of each control file of a project, by its path relative to the folder; links are followed.

    `more` are relative paths that count too if they exist. Raises ControlFileError, naming the file, for one that
    cannot be read, and for a project with too many of them.
    """
    hashes: dict[str, str] = {}
    for relative in _control_files(folder, more):
        if relative not in hashes:
            hashes[relative] = _hashed(folder / relative)
        if len(hashes) > _MOST_FILES:
            raise ControlFileError(f"{folder}: more than {_MOST_FILES} control files: look for what fills .amplifier")
    return hashes


def _control_files(folder: Path, more: Iterable[str]) -> Iterator[str]:
    for pattern in _PATTERNS:
        for path in sorted(folder.glob(pattern)):
            if not path.is_dir():
                yield path.relative_to(folder).as_posix()
    for name in _NAMES:
        if os.path.lexists(folder / name) and not (folder / name).is_dir():
            yield name
    for tree in _TREES:
        yield from _files_below(folder, folder / tree)
    for relative in more:
        if os.path.lexists(folder / relative):
            yield relative


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
        for name in sorted(files):
            yield (Path(path) / name).relative_to(folder).as_posix()


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a tree that is not there has no files
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
