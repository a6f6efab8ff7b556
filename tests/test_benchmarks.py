"""The benchmarks run: every workload reports, and every document is written section by section."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import modules of the benchmarks, which are scripts and belong to no package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def child(script: str, *arguments: str) -> list[Any]:
    """Run a script of the benchmarks on our kernel and return its lines of JSON."""
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", ["emit_1", "emit_20", "emit_large"])
def test_emit_workloads_report_a_time_and_a_floor(name: str, tmp_path: Path) -> None:
    """An emit workload reports how long one emit takes, and how long the floor takes."""
    [report] = child("workloads.py", name, "--folder", str(tmp_path), "--count", "2", "--batches", "2")
    assert set(report) == {"us", "floor_us"}
    assert min(report.values()) > 0


@pytest.mark.parametrize("name", ["turn", "session", "capability", "contributions"])
def test_session_workloads_report_a_time(name: str, tmp_path: Path) -> None:
    """A session workload reports how long one repetition takes."""
    [report] = child("workloads.py", name, "--folder", str(tmp_path), "--count", "2", "--batches", "2")
    assert set(report) == {"us"}
    assert report["us"] > 0


def test_memory_workload_reports_bytes(tmp_path: Path) -> None:
    """The memory workload reports what one live session holds."""
    [report] = child("workloads.py", "memory", "--folder", str(tmp_path), "--count", "5")
    assert set(report) == {"bytes"}


@pytest.mark.parametrize("name", ["import", "ready"])
def test_startup_workloads_report_a_time(name: str) -> None:
    """A start-up workload reports how long it took."""
    [report] = child("startup.py", name)
    assert set(report) == {"us"}
    assert report["us"] > 0


def test_the_table_has_its_columns(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The table names what was measured, both kernels, the ratio, the floor, the target and whether it is met."""
    speed, children = load("speed"), load("children")
    kernels = [children.Kernel(name, Path(sys.executable)) for name in ("ours", "peer")]
    rows = (speed.ROWS[0], speed.ROWS[-1])
    results = speed.measure(*kernels, 1, rows, ("--count", "1", "--batches", "1"))
    header, _, first, last = speed.render(results).splitlines()
    assert header == "| What | Ours | Peer | Ratio | Floor | Ours / floor | Target | Met |"
    assert first.startswith("| emit, 1 handler | ")
    assert "≥ 40× faster, ≤ 1.6× floor" in first
    assert last.startswith("| memory of a live session, 10 tools | ")
    assert [kernel.started for kernel in kernels] == [3, 3]


def test_a_missed_target_is_not_met(load: Any) -> None:
    """A row is met only when both its ratio and its share of the floor are good enough."""
    speed = load("speed")
    row = speed.ROWS[0]
    good = speed.Measured(row, ours=[1.0], peer=[40.0], floors=[1.0], of_floor=[1.5])
    slow = speed.Measured(row, ours=[2.0], peer=[40.0], floors=[2.0], of_floor=[1.0])
    fat = speed.Measured(row, ours=[1.0], peer=[40.0], floors=[0.5], of_floor=[2.0])
    assert [good.met, slow.met, fat.met] == [True, False, False]
    assert slow.cells()[-1] == "**no**"


def test_a_section_is_rewritten_alone(load: Any, tmp_path: Path) -> None:
    """Writing one section of a document leaves every other word of it as it was."""
    document = load("document")
    path = tmp_path / "docs" / "page.md"
    document.write_section(path, "# Page", "one", "first")
    document.write_section(path, "# Page", "two", "second")
    path.write_text(path.read_text(encoding="utf-8") + "\nBy hand.\n", encoding="utf-8")
    document.write_section(path, "# ignored", "one", "changed")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Page\n")
    assert "first" not in text
    assert text.index("changed") < text.index("second") < text.index("By hand.")


def test_a_section_that_never_closes_is_refused(load: Any) -> None:
    """A document whose section lost its end is not rewritten, for the rest would be swallowed."""
    document = load("document")
    with pytest.raises(ValueError, match="opened but never closed"):
        document.rewrite(f"{document.begin('one')}\nbody\n", "one", "new")


def test_exits_are_counted_and_written(tmp_path: Path) -> None:
    """A few runs of the one-emit program exit 0 and are written into their section of the document."""
    output = tmp_path / "reliability.md"
    command = [sys.executable, str(BENCHMARKS / "exits.py"), "--runs", "3", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "our kernel: 3 of 3 exited 0" in done.stdout
    assert "| 3 | 3 | none |" in output.read_text(encoding="utf-8")


def test_a_signal_is_named(load: Any) -> None:
    """An exit status says which signal ended the process."""
    exits = load("exits")
    assert [exits.in_words(status) for status in (0, 3, -11)] == ["0", "3", "-11 (SIGSEGV)"]
