"""What tests of several parts start from."""

from pathlib import Path

import pytest

from amplifier_foundation.paths import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return an empty home."""
    home = Home(tmp_path / "home")
    home.path.mkdir()
    return home
