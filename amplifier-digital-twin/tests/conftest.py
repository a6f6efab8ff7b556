"""Which of these tests start universes: those run in the system lane."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
SYSTEM = ("backends", "cli", "crossing", "embedded", "provenance", "services", "universe")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of universes, and of the servers in them."""
    for item in items:
        if any(item.path.is_relative_to(HERE / name) for name in SYSTEM):
            item.add_marker(pytest.mark.system)
