"""Counting: a number with its noun."""

from __future__ import annotations

import pytest

from amplifier_app_cli.ui.counting import counted


@pytest.mark.parametrize(("number", "wanted"), [(0, "0 turns"), (1, "1 turn"), (2, "2 turns"), (1200, "1,200 turns")])
def test_one_is_no_plural(number: int, wanted: str) -> None:
    """One is said as one."""
    assert counted(number, "turn") == wanted
