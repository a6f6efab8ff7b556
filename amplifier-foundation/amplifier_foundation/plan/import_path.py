"""Keep folders on Python's import path for as long as a session needs them: another session must not find them."""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader
from pathlib import Path
from threading import Lock
from types import CodeType
from typing import Final

#: How many sessions need each folder that this module has put on the path. Like the path itself, one for the process.
_needed: Final[Counter[str]] = Counter()
#: Every folder that was ever held: what was imported from one stays in memory.
_known: Final[set[str]] = set()
_lock: Final = Lock()
#: Folders of projects: what is imported from below them is compiled from its source each time.
_of_projects: Final[set[str]] = set()


def hold(folders: Iterable[Path], project: Path | None = None) -> Callable[[], None]:
    """Add folders to the end of `sys.path`, so that the program's packages win; return a function that removes them.

    A folder that several sessions need stays until the last of them releases it, and one that was there before stays.
    Modules in the `project` are never loaded from compiled files: a command there may have written them, and whether
    they belong to the source, which is what was trusted, Python does not check.
    """
    held: list[str] = []
    wanted = list(dict.fromkeys(map(str, folders)))
    with _lock:
        if project is not None:
            _compile_from_source(wanted, project)
        for folder in wanted:
            if folder in _needed:
                _needed[folder] += 1
            elif folder in sys.path:
                continue
            else:
                _needed[folder] = 1
                sys.path.append(folder)
            held.append(folder)
            _known.add(folder)
        if held:
            importlib.invalidate_caches()

    def release() -> None:
        with _lock:
            while held:
                folder = held.pop()
                _needed[folder] -= 1
                if _needed[folder] <= 0:
                    del _needed[folder]
                    if folder in sys.path:
                        sys.path.remove(folder)

    return release


def was_used() -> bool:
    """Return whether any session of this process added folders to the path."""
    return bool(_known)


def of_other_session(module_id: str, own: Iterable[Path]) -> Path | None:
    """Return the file that a module would be loaded from if that file belongs to another session of this process.

    `own` are the folders of this session. A process loads a package once: an import by name gets the package that is
    already loaded.
    """
    others = _known.difference(map(str, own))
    if not others:
        return None
    from importlib.util import find_spec

    package = f"amplifier_module_{module_id.replace('-', '_')}"
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None  # loading it reports the error
    origin = Path(spec.origin) if spec is not None and spec.origin is not None else None
    if origin is None or not any(origin.is_relative_to(folder) for folder in others):
        return None
    return origin


class _FromSource(SourceFileLoader):
    """Load a module from its source only: `__pycache__` is neither read nor written."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the compiled source."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _compile_from_source(folders: Iterable[str], project: Path) -> None:
    here = os.path.realpath(project)
    for folder in folders:
        forms = {os.path.abspath(folder), os.path.realpath(folder)}
        if any(_is_below(form, root) for form in forms for root in (here, os.path.abspath(project))):
            _of_projects.update(forms)
    if _of_projects and _finder not in sys.path_hooks:
        sys.path_hooks.insert(0, _finder)
    for path in [path for path in sys.path_importer_cache if any(_is_below(path, root) for root in _of_projects)]:
        if not isinstance(sys.path_importer_cache[path], _Finder):
            del sys.path_importer_cache[path]


class _Finder(FileFinder):
    """Find extensions and sources; a compiled file without its source is not found."""


def _finder(path: str) -> FileFinder:
    """A hook of the import path: raises ImportError for paths outside of any project."""
    if not os.path.isdir(path) or not any(_is_below(os.path.abspath(path), root) for root in _of_projects):
        raise ImportError("not a folder of a project", path=path)
    return _Finder(path, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_FromSource, SOURCE_SUFFIXES))


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}/")
