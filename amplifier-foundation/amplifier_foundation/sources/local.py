"""Find sources that are on this machine already."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from amplifier_foundation.sources.fetched import Fetched, SourceError, SourceNotFoundError
from amplifier_foundation.sources.uri import SourceUri

if TYPE_CHECKING:
    from importlib.metadata import Distribution


def find_file(source: SourceUri, *, base: Path | None, environ: Mapping[str, str]) -> Fetched:
    """Return a file or folder; relative paths start at `base`, never at the current folder.

    Raises SourceNotFoundError when it does not exist, SourceError when its path cannot be determined.
    """
    root = _existing(_located(source, base, environ), source)
    return Fetched(source.text, part_of(root, source), root, "file", is_local=True)


def part_of(root: Path, source: SourceUri) -> Path:
    """Return the part of a source that was asked for; raise SourceNotFoundError when it has none, or it leads out."""
    if not source.subdirectory:
        return root
    path = root.joinpath(*source.subdirectory.split("/"))
    try:
        is_there = path.exists()
        is_inside = path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError) as error:
        raise SourceError(f"{source.shown}: {path} cannot be looked at: {error}") from error
    if not is_there:
        raise SourceNotFoundError(f"{source.shown}: there is no {source.subdirectory!r} in {root}")
    if not is_inside:
        raise SourceError(f"{source.shown}: {path} is a link that leads out of {root}")
    return path


def _located(source: SourceUri, base: Path | None, environ: Mapping[str, str]) -> Path:
    if source.path == "~" or source.path.startswith("~/"):
        home = environ.get("HOME")
        if not home:
            raise SourceError(f"{source.shown}: HOME is not set, so it cannot be told what '~' is: give a whole path")
        return Path(home + source.path[1:])
    if not source.is_relative:
        return Path(source.path)
    if base is None:
        raise SourceError(
            f"{source.shown} is relative, and there is no file it could be relative to: give a whole path"
        )
    return base / source.path


def _tidied(path: Path) -> Path:
    """Return a path without `..`; links are kept in it unless `..` comes after one, where that matters."""
    if ".." not in path.parts:
        return path.absolute()
    shorter = Path(os.path.normpath(path.absolute()))
    return shorter if shorter.exists() and shorter.samefile(path) else path.resolve()


def _existing(path: Path, source: SourceUri) -> Path:
    # `file://` is a URL, where a blank may be written %20; a name that is spelled like that comes first.
    spelled = [path]
    if source.text.startswith("file://") and "%" in str(path):
        spelled.append(Path(unquote(str(path))))
    try:
        for candidate in spelled:
            if candidate.exists():
                return _tidied(candidate)
    except (OSError, ValueError) as error:
        raise SourceError(f"{source.shown}: {path} cannot be looked at: {error}") from error
    raise SourceNotFoundError(f"{source.shown}: there is no file or folder {path}")


def find_package(source: SourceUri) -> Fetched:
    """Return the folder of an installed distribution's package; nothing of it is imported.

    An editable install is its project folder's package. Raises SourceNotFoundError when it is not installed, or has no
    package folder.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = distribution(source.path)
    except (PackageNotFoundError, ValueError) as error:
        raise SourceNotFoundError(
            f"{source.shown}: no package {source.path!r} is installed, and no bundle of this name is known: check the "
            "name, install the package, or write ./path for a folder"
        ) from error
    root = _folder(found, source.path)
    if root is None:
        raise SourceNotFoundError(
            f"{source.shown}: the package {source.path!r} is installed, but has no folder of code"
        )
    return Fetched(source.text, part_of(root, source), root, "package", is_local=True)


def _folder(found: Distribution, named: str) -> Path | None:
    for name in _packages(found, named):
        path = Path(str(found.locate_file(name)))
        if path.is_dir():
            return path
        if (imported := _importable(name)) is not None:
            return imported
    return None


def _packages(found: Distribution, named: str) -> list[str]:
    """Return the names of its top-level packages, the one that is named like the distribution first."""
    own = named.replace("-", "_").replace(".", "_")
    listed = [line.strip() for line in (found.read_text("top_level.txt") or "").splitlines() if line.strip()]
    inside = [file.parts[0] for file in found.files or [] if len(file.parts) > 1 and file.name == "__init__.py"]
    # Sorted so that the answer does not depend on the order of an installer's record.
    return list(dict.fromkeys([own, own.lower(), *sorted(listed), *sorted(inside)]))


def _importable(name: str) -> Path | None:
    """Return where an import would find a top-level package, as editable installs lie elsewhere."""
    from importlib.util import find_spec

    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    return Path(places[0]) if places else None
