"""Find what comes with the product: bundles, and the behaviors, agents and skills in the namespace `amplifier`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent / "files"
_BUNDLES: Final = ("default", "minimal", "demo", "parallax")

#: The namespace of the shipped files and its root: `amplifier:behaviors/logging` works in every bundle.
SHIPPED_NAMESPACE: Final = ("amplifier", _FOLDER)


def shipped_bundles() -> dict[str, Path]:
    """Return the bundles that come with the product, by name."""
    return {name: _FOLDER / f"{name}.md" for name in _BUNDLES}


def shipped_skills() -> Path:
    """Return the folder of the skills that come with the product."""
    return _FOLDER / "skills"


def shipped_uri(uri: str) -> str:
    """Return the address of a shipped file by its namespace: where the product is installed is no part of it."""
    name, root = SHIPPED_NAMESPACE
    return f"{name}:{uri.removeprefix(f'{root}/')}" if uri.startswith(f"{root}/") else uri
