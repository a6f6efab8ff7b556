"""A long session costs the same per turn at its end as at its start."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "run.py"


@pytest.mark.system
def test_nothing_grows_faster_than_the_conversation(tmp_path: Path) -> None:
    """Over 200 turns the log and the transcript grow evenly, and memory by the conversation alone."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "long-session", "--size", "200", "--write", "--docs", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "reliability.md").read_text().count("\n| 200 |") == 1


def test_growth_is_noticed(load: Callable[[str], ModuleType]) -> None:
    """The check can fail: a log that repeats what it said before, or memory that is kept, is reported."""
    long_session = load("long_session")
    even = [long_session.Mark(turn, 100 * turn, 0, 10 * turn, 5000 * turn, 1.0) for turn in range(1, 9)]
    assert long_session.judge(even) == []
    square = [long_session.Mark(turn, turn**2, 0, turn**2, 50_000 * turn, 1.0) for turn in range(100, 900, 100)]
    assert [problem.partition(":")[0] for problem in long_session.judge(square)] == ["stored", "transcript", "memory"]
