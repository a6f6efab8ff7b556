"""The benchmark of compaction runs and reports its rows."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[4] / "benchmarks" / "compaction.py"


def test_the_benchmark_reports_its_rows() -> None:
    """Every row says what was measured, how long it took, and whether that is good enough."""
    command = [sys.executable, str(SCRIPT), "--messages", "300", "--rounds", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 7
    assert all(set(row) == {"what", "ms", "target_ms", "met"} for row in rows)
    assert sum(row["target_ms"] == 50 for row in rows) == 3
