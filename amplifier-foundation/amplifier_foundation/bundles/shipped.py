"""Find what comes with the product: bundles, and the behaviors, agents and skills in the namespace `amplifier`.

The bundles `foundation` and `anchors` have the names, modules and agents of the published ones, in our words: bundles
that were written for those include and mention their files. Each is a folder, and a namespace of its own.

Every other file belongs to the user, to a project, or was fetched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from amplifier_foundation.bundles.anchors import is_inside
from amplifier_foundation.bundles.bundle import Owner
from amplifier_foundation.paths import Home

_FOLDER: Final = Path(__file__).parent / "files"
_BUNDLES: Final = ("default", "minimal", "demo", "parallax")
_NAMESPACES: Final = ("anchors", "foundation")

#: The namespace of the shipped files and its root: `amplifier:behaviors/logging` works in every bundle.
SHIPPED_NAMESPACE: Final = ("amplifier", _FOLDER)


def shipped_bundles() -> dict[str, Path]:
    """Return the bundles that come with the product, by name."""
    files = {name: _FOLDER / f"{name}.md" for name in _BUNDLES}
    return files | {name: root / "bundle.md" for name, root in fallback_namespaces().items()}


def fallback_namespaces() -> dict[str, Path]:
    """Return the namespaces of shipped bundles that hold wherever no included bundle has such a name, by name."""
    return {name: _FOLDER / name for name in _NAMESPACES}


def shipped_skills() -> Path:
    """Return the folder of the skills that come with the product."""
    return _FOLDER / "skills"


def shipped_uri(uri: str) -> str:
    """Return the address of a shipped file by its namespace: it does not depend on where the product is installed."""
    name, root = SHIPPED_NAMESPACE
    return f"{name}:{uri.removeprefix(f'{root}/')}" if uri.startswith(f"{root}/") else uri


def owner_of(path: Path, project: Path | None, home: Home) -> Owner:
    """Return whose file it is, by its location: what is in the user's home is the user's, even in a project."""
    if is_inside(path, _FOLDER):
        return "product"
    if is_inside(path, home.cache):
        return "fetched"
    if project is not None and is_inside(path, project) and not is_inside(path, home.path):
        return "project"
    return "user"
