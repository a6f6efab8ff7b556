"""A coordinator to try things on."""

from __future__ import annotations

import pytest

from amplifier_core import ModuleCoordinator


@pytest.fixture
def kernel() -> ModuleCoordinator:
    """Give a coordinator without a session."""
    return ModuleCoordinator()
