"""The measurement of the program delivers rows, and a program that fails fast does not win."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Load = Callable[[str], ModuleType]


@pytest.mark.system
def test_the_program_is_measured_beside_its_floor(load: Load) -> None:
    """One round gives the four rows, each with a value, a target and a verdict."""
    rows = load("app_run").measure(load("harness").Setting(rounds=1, size=0))
    assert [row.what for row in rows] == [
        "`amplifier run`, mock provider",
        "`amplifier run`, default bundle",
        "`amplifier --version`",
        "`amplifier --help`",
    ]
    assert all(row.value > 0 and row.target for row in rows)


def test_a_program_that_fails_fast_does_not_win(load: Load, tmp_path: Path) -> None:
    """A program that does not print what it is for stops the measurement."""
    app_run = load("app_run")
    with pytest.raises(app_run.ProgramFailed, match="exit status 3"):
        app_run.Program(["-c", "raise SystemExit(3)"], "").start(tmp_path)
    with pytest.raises(app_run.ProgramFailed, match="exit status 0"):
        app_run.Program(["-c", "print('else')"], "wanted").start(tmp_path)
