"""Import a module from a given path, and refuse when its name belongs to other files.

A module name is global to the process: two checkouts of one module cannot both be imported under it. Validating one
while the other runs would mislead, so that is an error which names both places.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

_INIT = "__init__.py"


def import_module_from_path(path: str | Path) -> ModuleType:
    """Import the package folder or `.py` file at `path` under its own name and return it.

    The folder above it is first on sys.path meanwhile. A module that is already loaded is returned when it came from
    that very file. Raises ImportError when that name belongs to other files, and whatever the module itself raises.
    """
    name, source = _name_and_source(Path(path))
    loaded = sys.modules.get(name)
    foreign = _foreign_submodule(name, source)
    if foreign is not None:
        raise ImportError(
            f"Refusing to import '{name}' from {source}: cached submodule '{foreign}' "
            f"is from {_file_of(sys.modules[foreign])}"
        )
    if loaded is not None:
        if not _is_file(loaded, source):
            raise ImportError(
                f"Refusing to import '{name}' from {source}: it is already loaded from {_file_of(loaded)}"
            )
        return loaded
    with _first_on_path(source.parent.parent if source.name == _INIT else source.parent):
        return _import(name, source)


@contextmanager
def private_import(path: str | Path) -> Iterator[ModuleType]:
    """Import a fresh copy of the module at `path` for the length of a `with` block.

    Module-level state is new, and modules loaded before under that name are restored afterwards.
    """
    name, source = _name_and_source(Path(path))
    loaded = _remove(name)
    try:
        with _first_on_path(source.parent.parent if source.name == _INIT else source.parent):
            yield _import(name, source)
    finally:
        _remove(name)
        sys.modules.update(loaded)


def _name_and_source(path: Path) -> tuple[str, Path]:
    """Return the name to import and the file it must come from."""
    path = Path(os.path.abspath(path))  # not resolved: a linked folder is imported under the name of the link
    if path.name == _INIT:
        path = path.parent
    return (path.name, path / _INIT) if path.is_dir() else (path.stem, path)


def _import(name: str, source: Path) -> ModuleType:
    known = set(sys.modules)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
        if not _is_file(module, source):
            raise ImportError(f"Refusing to validate '{name}' from {source}: Python imported {_file_of(module)}")
    except BaseException:
        # Submodules that did load would break the next attempt, from here or from another folder.
        for part in _parts(name):
            if part not in known:
                del sys.modules[part]
        raise
    return module


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in sys.path:  # the module may have rearranged it
            sys.path.remove(entry)


def _remove(name: str) -> dict[str, ModuleType]:
    return {part: sys.modules.pop(part) for part in _parts(name)}


def _parts(name: str) -> list[str]:
    return [part for part in list(sys.modules) if part == name or part.startswith(f"{name}.")]


def _foreign_submodule(name: str, source: Path) -> str | None:
    """Return a loaded submodule of `name` that does not come from the folder of `source`."""
    folder = source.parent.resolve()
    for part in _parts(name):
        file = _file_of(sys.modules[part])
        if part != name and file is not None and not Path(file).resolve().is_relative_to(folder):
            return part
    return None


def _file_of(module: object) -> str | None:
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else None


def _is_file(module: object, source: Path) -> bool:
    file = _file_of(module)
    return file is not None and Path(file).resolve() == source.resolve()
