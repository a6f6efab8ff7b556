"""What a coordinator is made of, and what may be done to it."""

from __future__ import annotations

import pytest

from amplifier_core import ModuleCoordinator


def test_a_misspelt_argument_is_refused() -> None:
    """A keyword that nobody takes is a mistake, not something to ignore."""
    with pytest.raises(TypeError, match="aproval_system"):
        ModuleCoordinator(aproval_system=object())
