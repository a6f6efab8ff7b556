"""A project, a home and a loader for both, all in a temporary folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles.loader import BundleLoader
from amplifier_foundation.bundles.registry import BundleRegistry
from amplifier_foundation.bundles.shipped import shipped_bundles
from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetcher import Fetcher


class Place:
    """A folder with a project and a home, and short words to write files in it and to load bundles from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.home = Home(folder / "home")
        self.project.mkdir(parents=True)

    def write(self, path: str, text: str) -> Path:
        """Write a file below the folder; the path may start with `project/` or `home/`."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
        return file

    def registry(self, added: dict[str, str] | None = None, **more: Any) -> BundleRegistry:
        """Return the registry of this place."""
        return BundleRegistry(self.home, self.project, added, shipped_bundles(), **more)

    def loader(self, added: dict[str, str] | None = None, **more: Any) -> BundleLoader:
        """Return a loader that fetches nothing over the network."""
        return BundleLoader(Fetcher(self.home, offline=True), self.registry(added), self.home, self.project, **more)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return an empty place."""
    return Place(tmp_path)


@pytest.fixture(scope="session")
def make_place() -> Callable[[Path], Place]:
    """Return how to make a place, for tests that need many."""
    return Place
