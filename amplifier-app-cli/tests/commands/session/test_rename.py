"""`amplifier session rename`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Give = Callable[..., Result]
Made = Callable[..., Path]

ONE = "11111111-0000-4000-8000-000000000001"
TWO = "22222222-0000-4000-8000-000000000002"


def test_a_session_is_found_by_the_name_it_was_given(amplifier: Amplifier, made: Made) -> None:
    """A rename is shown by the next list, and an empty name takes it away."""
    made(ONE, "first")
    renamed = amplifier("session", "rename", ONE[:6], "the garden")
    assert (renamed.returncode, renamed.stdout) == (0, "")
    assert "'the garden'" in renamed.stderr
    assert "the garden" in amplifier("session", "list").stdout
    assert json.loads(amplifier("session", "rename", "the garden", "", "--format", "json").stdout)["name"] is None
    assert amplifier("session", "show", "the garden").returncode == 2


def test_a_name_that_is_taken_is_refused(give: Give, made: Made) -> None:
    """Two sessions of a project never have one name."""
    made(ONE, "x", name="taken")
    made(TWO, "x")
    result = give("rename", TWO, "taken")
    assert result.exit_code == 1
    assert ONE in result.stderr
