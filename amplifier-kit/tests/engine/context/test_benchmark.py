"""The benchmark of compaction runs and reports its rows."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[4] / "benchmarks" / "run.py"


def test_the_benchmark_reports_its_rows() -> None:
    """Every row says what was measured and how long it took; compaction has a limit for each window."""
    command = [sys.executable, str(PROGRAM), "compaction", "--small", "--rounds", "1", "--as-json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 7
    assert all(row["what"] and row["value"] > 0 for row in rows)
    assert sum(row["most"] == 50 for row in rows) == 3
