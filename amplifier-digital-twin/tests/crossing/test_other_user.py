"""All of this without rights: the same tests, run by a user who is nobody special."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.timeout(900)
def test_as_another_user(as_another_user: Callable[..., str]) -> None:
    """Everything holds for a user without rights, who owns the namespaces that he made."""
    assert " passed" in as_another_user(Path(__file__).parent)
