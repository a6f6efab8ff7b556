"""A process that is killed while it writes leaves a log that is whole."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.mark.system
def test_kills_lose_no_acknowledged_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each of twenty kills every acknowledged line is there, and the next process continues from it."""
    if not BENCHMARKS.is_dir():
        pytest.skip("the benchmarks are not part of this distribution")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    kills = importlib.import_module("kills")
    tally = kills.run(20, 7, tmp_path)
    assert tally.faults == []
    assert (tally.kills, tally.sessions, tally.lost) == (20, 2, 0)
    assert tally.acknowledged > 20
    assert tally.torn <= 20
