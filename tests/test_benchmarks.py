"""The benchmarks run: every measurement is found, reports rows, is judged, and writes its own part of the documents."""

import argparse
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


def run(*arguments: str, status: int) -> subprocess.CompletedProcess[str]:
    """Run the program that measures."""
    command = [sys.executable, str(BENCHMARKS / "run.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def test_every_measurement_can_be_run_by_its_name(load: Any) -> None:
    """Names are unique and listed, every subject exists, and every group of the page has its measurements."""
    measurements, groups = load("table").MEASUREMENTS, load("table").GROUPS
    names = [measurement.name for measurement in measurements]
    assert len(set(names)) == len(names)
    listed = run("--list", status=0).stdout.splitlines()
    assert [line.split()[0] for line in listed] == names
    assert {measurement.group for measurement in measurements} == set(groups)
    for measurement in measurements:
        file, _, function = measurement.subject.partition(".")
        assert callable(getattr(load(file), function)), measurement.name
    subjects = [measurement.given["subject"] for measurement in measurements if "subject" in measurement.given]
    assert all(hasattr(load(file), name) for file, name in (subject.split(".") for subject in subjects))


def test_a_measurement_is_run_alone(load: Any, tmp_path: Path) -> None:
    """One name gives the rows of that measurement, and no document is touched without --write."""
    done = run("emit-1", "--rounds", "1", "--small", "--peer", sys.executable, "--docs", str(tmp_path), status=1)
    header, _, row = done.stdout.splitlines()
    assert header == f"| {' | '.join(load('harness').HEADER)} |"
    assert row.startswith("| emit, 1 handler | ")
    assert "| ≥ 40× faster, ≤ 1.6× floor | **no** |" in row  # our kernel stands for the peer
    assert "MISSED: emit, 1 handler" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_not_there_are_refused() -> None:
    """A name that no measurement has is an error that says how to find the names."""
    assert "no measurement is named emit-2" in run("emit-2", status=2).stderr


def test_a_measurement_without_its_peer_stops_and_the_others_go_on(load: Any) -> None:
    """What cannot be measured is named, with its last words, and fails the whole after the rest was measured."""
    done = run("emit-1", "budget", "--rounds", "1", "--size", "2", "--peer", "/nowhere/python", status=2)
    assert "STOPPED: emit-1 gave no rows" in done.stderr
    assert "/nowhere/python" in done.stderr
    assert "| reserve a tool call, five levels | " in done.stdout


def test_a_size_of_zero_is_a_size(load: Any) -> None:
    """Every number that is given counts, zero too; the small size is one only for those who ask for a trial."""
    program, harness = load("run"), load("harness")
    one = harness.Measurement("one", "", "", "", rounds=5, size=2, small=0)

    def size(**given: Any) -> int:
        options = {"size": None, "small": False, "rounds": None, "seed": 1, "peer": None, **given}
        found: int = program.setting(one, argparse.Namespace(**options)).size
        return found

    assert [size(), size(small=True), size(size=0), size(size=7)] == [2, 0, 0, 7]


def test_limits_are_judged(load: Any) -> None:
    """A row is met when every limit holds that it has; one without limits has no verdict."""
    row = load("harness").Row
    assert [row("x", value, most=20).met for value in (20, 20.1)] == [True, False]
    assert [row("x", value, least=200).met for value in (200, 199)] == [True, False]
    assert [row("x", 3, floor=floor, most_of_floor=1.5).met for floor in (2, 1.9)] == [True, False]
    assert [row("x", 1, peer=peer, least_of_peer=40).met for peer in (40, 39)] == [True, False]
    slow = row("x", 2.0, "µs", floor=2.0, most_of_floor=1.6, peer=40.0, least_of_peer=40)
    assert slow.cells() == ["x", "2 µs", "2 µs", "1.00×", "40 µs", "20.0×", "≥ 40× faster, ≤ 1.6× floor", "**no**"]
    assert row("x", 0.5).cells() == ["x", "0.5 ms", "", "", "", "", "", ""]


def test_the_median_of_the_processes_counts(load: Any) -> None:
    """Of several processes each row is that of the median, whatever the other rows of that process are."""
    harness = load("harness")
    runs = [harness.Found([harness.Row("a", a), harness.Row("b", b)]) for a, b in ((1, 9), (2, 7), (3, 8))]
    assert [row.value for row in harness.middle(runs).rows] == [2, 8]


def test_what_was_measured_is_written_and_nothing_else(load: Any, tmp_path: Path) -> None:
    """A group is written when all of its measurements ran, a section of reliability when its own one did."""
    harness, table, program = load("harness"), load("table"), load("run")
    found = harness.Found([harness.Row("a number", 1.0)], "some", "## Some\n\ncounted")
    program.write({"query": found}, tmp_path)
    assert not (tmp_path / "benchmarks.md").exists()
    assert "counted" in (tmp_path / "reliability.md").read_text(encoding="utf-8")
    names = [one.name for one in table.MEASUREMENTS if one.group == "scale"]
    program.write(dict.fromkeys(names, found), tmp_path)
    text = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert text.count("| a number | 1 ms |") == len(names)
    assert "section: scale" in text
    assert "section: speed" not in text


def test_the_page_has_the_heading_and_every_group(load: Any) -> None:
    """The page is the one that the program rewrites: same beginning, one section for each group."""
    page = (BENCHMARKS.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    table = load("table")
    assert page.startswith(table.HEADING.strip())
    marked = [line.split()[2] for line in page.splitlines() if line.startswith("<!-- section:")]
    assert marked == list(table.GROUPS)
    for title, words in table.GROUPS.values():
        assert f"## {title}\n" in page
        assert words.strip() in page


@pytest.mark.system
@pytest.mark.parametrize("name", ["query", "views", "sessions-1000", "growth-sessions", "growth-log", "session-list"])
def test_a_trial_of_what_is_large_works(name: str) -> None:
    """Measurements of very large things run with small sizes; whether times are met says nothing here."""
    command = [sys.executable, str(BENCHMARKS / "run.py"), name, "--small", "--rounds", "1", "--as-json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"]
    assert found["faults"] == []


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
    done = run("exits", "--size", "3", "--write", "--docs", str(tmp_path), status=0)
    assert "| Exit status of a one-emit program, our kernel: 0 | 3 of 3 | " in done.stdout
    assert "| 3 | 3 | none |" in (tmp_path / "reliability.md").read_text(encoding="utf-8")


def test_a_signal_is_named(load: Any) -> None:
    """An exit status says which signal ended the process."""
    exits = load("exits")
    assert [exits.in_words(status) for status in (0, 3, -11)] == ["0", "3", "-11 (SIGSEGV)"]
