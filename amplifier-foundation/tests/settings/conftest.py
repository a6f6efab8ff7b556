"""A home, a project and a key store for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.settings.keys import KeyStore


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home that does not exist yet, in a place with a space and an accent in its name."""
    return Home(tmp_path / "hôme of a user" / ".amplifier")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project folder."""
    folder = tmp_path / "prøject"
    folder.mkdir()
    return folder


@pytest.fixture
def keys(home: Home) -> KeyStore:
    """Return the key store of the home, with nothing in the environment."""
    return KeyStore(home, {})
