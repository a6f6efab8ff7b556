"""The benchmarks run: every workload reports, every scenario observes, and the comparison tells differences apart."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


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


@pytest.mark.parametrize("name", ["turn", "session"])
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
    assert "≥ 35× faster, ≤ 1.6× floor" in first
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


def test_an_area_observes_every_scenario_it_plans(tmp_path: Path) -> None:
    """A child tells its plan first, then one observation per scenario, none of which escaped its own script."""
    plan, *observed = child("scenario_child.py", "correlation", "--folder", str(tmp_path))
    assert list(plan["plan"]) == [line["id"] for line in observed]
    assert not [line for line in observed if isinstance(line["observed"], dict) and "escaped" in line["observed"]]


def test_a_risky_scenario_is_left_for_a_process_of_its_own(tmp_path: Path) -> None:
    """A scenario that may crash its process is planned, not played, until it is asked for by name."""
    identity = "cancellation.fatal_callbacks"
    plan, *observed = child("scenario_child.py", "cancellation", "--folder", str(tmp_path / "all"))
    assert plan["plan"][identity] is True
    assert identity not in [line["id"] for line in observed]
    _, alone = child("scenario_child.py", "cancellation", "--folder", str(tmp_path / "one"), "--only", identity)
    assert alone["id"] == identity


def test_every_area_is_listed(load: Any) -> None:
    """Every file of scenarios is an area, and every area is a file."""
    base = load("scenarios.base")
    helpers = {"__init__", "base", "parts"}
    assert {path.stem for path in (BENCHMARKS / "scenarios").glob("*.py")} - helpers == set(base.AREAS)


def test_every_intended_difference_names_a_scenario_and_a_decision(load: Any) -> None:
    """An intended difference speaks of a scenario that exists, and says by which paragraph it is intended."""
    base, behaviour = load("scenarios.base"), load("behaviour")
    for area in base.AREAS:
        load(f"scenarios.{area}")
    for entry in behaviour.read_intended():
        assert entry.decision.startswith("§"), entry
        assert entry.reason, entry
        assert [name for name in base.REGISTER if behaviour.fnmatchcase(name, entry.scenario)], entry


@given(value=json_values)
def test_equal_observations_do_not_differ(value: Any) -> None:
    """An observation never differs from itself."""
    behaviour = _import_behaviour()
    assert list(behaviour.differences("a.b", value, value)) == []


@given(ours=json_values, peer=json_values)
def test_unequal_observations_differ(ours: Any, peer: Any) -> None:
    """Two observations differ somewhere exactly when their JSON differs."""
    behaviour = _import_behaviour()
    same = json.dumps(ours, sort_keys=True) == json.dumps(peer, sort_keys=True)
    assert (not list(behaviour.differences("a.b", ours, peer))) == same


def _import_behaviour() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        return importlib.import_module("behaviour")


def test_only_the_listed_place_is_covered(load: Any) -> None:
    """A difference beside the listed place is still reported, and a listed one that is gone is stale."""
    behaviour = load("behaviour")
    entries = [behaviour.Intended("a.*", "x.turn_id", "§1", "r"), behaviour.Intended("b.gone", "*", "§2", "r")]
    ours = {"a.one": {"x": {"turn_id": "t", "other": 1}}, "b.gone": 1}
    peer = {"a.one": {"x": {"other": 2}}, "b.gone": 1}
    result = behaviour.compare(ours, peer, entries)
    assert [(d.scenario, d.place, d.ours, d.peer) for d in result.unlisted] == [("a.one", "x.other", 1, 2)]
    assert result.stale == [entries[1]]
    assert (result.scenarios, result.equal) == (2, 1)


def test_a_failed_area_is_one_difference(load: Any) -> None:
    """An area that one kernel cannot even load is reported once, not once per scenario."""
    behaviour = load("behaviour")
    result = behaviour.compare({"a.(all)": {"area_failed": ["boom"]}}, {"a.one": 1, "a.two": 2}, [])
    assert [difference.scenario for difference in result.unlisted] == ["a.(all)"]


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
