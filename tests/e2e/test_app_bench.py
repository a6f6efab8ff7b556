"""The measurements of the program deliver rows, and a missed target fails."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Load = Callable[[str], ModuleType]


@pytest.mark.system
def test_the_program_is_measured_beside_its_floor(load: Load) -> None:
    """One round gives the four rows, each with a value, a target and a verdict."""
    rows = load("app_run").measure(1)
    assert [row["what"].split(":")[0] for row in rows] == [
        "`amplifier run`, mock provider",
        "`amplifier run`, default bundle",
        "`amplifier --version`",
        "`amplifier --help`",
    ]
    assert all(row["value"] > 0 and isinstance(row["met"], bool) and row["target"] for row in rows)


def test_a_program_that_fails_fast_does_not_win(load: Load, tmp_path: Path) -> None:
    """A program that does not print what it is for stops the measurement."""
    app_run = load("app_run")
    with pytest.raises(app_run.ProgramFailed, match="exit status 3"):
        app_run.Program(["-c", "raise SystemExit(3)"], "").start(tmp_path)
    with pytest.raises(app_run.ProgramFailed, match="exit status 0"):
        app_run.Program(["-c", "print('else')"], "wanted").start(tmp_path)


def test_a_ratio_above_its_target_is_missed(load: Load) -> None:
    """The target is a number of floors."""
    app_run = load("app_run")
    assert app_run.row_of_ratio("x", 0.3, 0.2, 1.5)["met"]
    assert not app_run.row_of_ratio("x", 0.31, 0.2, 1.5)["met"]
    assert not app_run.row_of_time("x", 0.13, 0.12)["met"]


def _program(folder: Path, name: str, printed: str, status: int) -> None:
    (folder / name).write_text(f"import sys\nprint({printed!r})\nsys.exit({status})\n")


def test_rows_of_all_programs_make_one_table(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both forms of rows are understood, a program that is not there is left out, a missed target fails the whole."""
    app, run = load("app"), load("run")
    rows = [{"what": "log", "value": 60000, "unit": "events/s", "target": "≥ 50,000", "met": True}]
    _program(tmp_path, "one.py", json.dumps(rows), 0)
    more = {"rows": [{"what": "slow", "ms": 61.5, "target_ms": 50.0, "met": False}]}
    _program(tmp_path, "two.py", json.dumps(more), 1)
    measured = app.measure(("one.py", "absent.py", "two.py"), tmp_path)
    assert app.render(measured).splitlines()[2:] == [
        "| log | 60,000 events/s | ≥ 50,000 | yes |",
        "| slow | 61.5 ms | ≤ 50 ms | **no** |",
    ]
    for given, verdict in ((measured, False), (measured[:1], True)):
        monkeypatch.setattr(app, "measure", lambda given=given: given)
        assert run.run_app(tmp_path / "benchmarks.md") is verdict
    assert "MISSED: slow" in capsys.readouterr().out
    assert "## Log, compaction, program" in (tmp_path / "benchmarks.md").read_text()


def test_a_program_without_rows_says_why(load: Load, tmp_path: Path) -> None:
    """A program that dies before its rows stops the benchmark with its last words."""
    app, children = load("app"), load("children")
    (tmp_path / "dies.py").write_text("raise RuntimeError('last words')\n")
    with pytest.raises(children.NoDelivery, match="last words"):
        app.measure(("dies.py",), tmp_path)
