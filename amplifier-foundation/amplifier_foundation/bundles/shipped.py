"""Find the bundles that come with the product."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "files"


def default_bundle() -> Path:
    """Return the bundle that runs when none is named."""
    return _FOLDER / "default.md"
