"""Find what is installed in this Python environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_foundation.sources.fetched import Fetched, SourceNotFoundError
from amplifier_foundation.sources.local import part_of
from amplifier_foundation.sources.uri import SourceUri

if TYPE_CHECKING:
    from importlib.metadata import Distribution


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
