"""Import a module from a given path, and refuse when its name belongs to other files.

A module name is global to the process: two checkouts of one module cannot both be imported under it. Validating one
while the other runs would mislead, so that is an error which names both places.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType

_INIT = "__init__.py"
#: Distinguishes the private modules of one process.
_numbers = count(1)


def import_module_from_path(path: str | Path) -> ModuleType:
    """Import the package folder or `.py` file at `path` under its own name and return it.

    The folder above it is first on sys.path meanwhile. A module that is already loaded is returned when it came from
    that very file. Raises ImportError when that name belongs to other files, and whatever the module itself raises.
    """
    name, source = _name_and_source(Path(path))
    loaded = _refuse_other_files(name, source)
    if loaded is not None:
        return loaded
    with _first_on_path(source.parent.parent if source.name == _INIT else source.parent):
        return _import(name, source)


@contextmanager
def private_import(path: str | Path) -> Iterator[ModuleType]:
    """Run the module at `path` as a fresh private module for the length of a `with` block.

    Only its own file is fresh. What it imports of its package is loaded under its real name and stays loaded, so that
    a test that patches a submodule, or compares with a class in one, means the one that the module uses. Raises as
    `import_module_from_path`.
    """
    name, source = _name_and_source(Path(path))
    _refuse_other_files(name, source)
    is_package = source.name == _INIT
    private = f"{name}.__private_{next(_numbers)}" if is_package else f"__private_{next(_numbers)}_{name}"
    spec = importlib.util.spec_from_file_location(private, source)
    if spec is None or spec.loader is None:
        raise ImportError(f"Refusing to import '{name}' from {source}: it is no Python file")
    spec.submodule_search_locations = None  # not a package of its own: `from .part` means the part of the real one
    module = importlib.util.module_from_spec(spec)
    with _first_on_path(source.parent.parent if is_package else source.parent):
        sys.modules[private] = module  # data classes look their module up
        known = set(sys.modules)
        try:
            importlib.invalidate_caches()
            try:
                spec.loader.exec_module(module)
            except BaseException:
                _forget(name, known)
                raise
            yield module
        finally:
            sys.modules.pop(private, None)


def _refuse_other_files(name: str, source: Path) -> ModuleType | None:
    """Return the module if it is loaded; raise ImportError if it, or a part of it, was loaded from other files."""
    loaded = sys.modules.get(name)
    foreign = _foreign_submodule(name, source)
    if foreign is not None:
        raise ImportError(
            f"Refusing to import '{name}' from {source}: cached submodule '{foreign}' "
            f"is from {_file_of(sys.modules[foreign])}"
        )
    if loaded is not None and not _is_file(loaded, source):
        raise ImportError(f"Refusing to import '{name}' from {source}: it is already loaded from {_file_of(loaded)}")
    return loaded


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
        _forget(name, known)
        raise
    return module


def _forget(name: str, known: set[str]) -> None:
    """Forget the parts that were loaded: they would break the next attempt, from here or from another folder."""
    for part in _parts(name):
        if part not in known:
            del sys.modules[part]


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in sys.path:  # the module may have rearranged it
            sys.path.remove(entry)


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
