"""Which of these tests start containers or servers: those run in the system lane."""

from __future__ import annotations

from pathlib import Path

import pytest

SYSTEM = tuple(f"{Path(__file__).parent / name}/" for name in ("containers", "provenance", "services"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of universes, and of the servers in them."""
    for item in items:
        if str(item.path).startswith(SYSTEM):
            item.add_marker(pytest.mark.system)
