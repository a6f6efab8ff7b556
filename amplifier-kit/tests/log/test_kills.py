"""A process that is killed while it writes leaves a log that is whole."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.mark.system
def test_kills_lose_no_acknowledged_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each of twenty kills every acknowledged line is there, and the next process continues from it."""
    if not BENCHMARKS.is_dir():
        pytest.skip("the benchmarks are not part of this distribution")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    kills, kill_log = importlib.import_module("kills"), importlib.import_module("kill_log")
    tally = kills.play(kill_log.LogWriter, 20, 7)
    assert tally.faults == []
    assert (tally.counts["kills"], tally.counts["sessions"], tally.counts["lost"]) == (20, 2, 0)
    assert tally.counts["acknowledged"] > 20
    assert tally.counts["torn"] <= 20
