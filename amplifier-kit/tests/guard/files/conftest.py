"""A folder without links, and an event that nobody sets."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return an empty folder whose path has no links."""
    made = tmp_path.resolve() / "project"
    made.mkdir()
    return made


@pytest.fixture
def stop() -> threading.Event:
    """Return an event that nobody sets."""
    return threading.Event()
