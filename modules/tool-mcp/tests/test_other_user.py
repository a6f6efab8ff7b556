"""The sandbox without rights: the same tests, run by a user who is nobody special."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.timeout(900)
def test_as_another_user(as_another_user: Callable[..., str]) -> None:
    """What holds of servers in the sandbox is for a user without rights as it is for root."""
    assert " passed" in as_another_user(Path(__file__).with_name("test_confinement.py"))
