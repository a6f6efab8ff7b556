"""The kernel answers every scenario as the published one did, except where a difference is intended."""

from __future__ import annotations

import json
import subprocess
from fnmatch import filter as matching
from pathlib import Path

import pytest

from .answers import Difference, Intended, compare, differences, read_answers, read_intended, stale, unlisted
from .play import play_all
from .scenarios.base import AREAS, load_scenarios, play

ROOT = Path(__file__).parents[3]
SCENARIOS = load_scenarios()
ANSWERS = read_answers()
INTENDED = read_intended()


def observe(identity: str, folder: Path) -> list[Difference]:
    """Play a scenario in this process and return where its observation differs from the recorded answer."""
    observed = json.loads(json.dumps(play(SCENARIOS[identity], folder)))
    return list(differences(identity, observed, ANSWERS[identity]))


@pytest.mark.parametrize("identity", SCENARIOS)
def test_the_answer_is_the_published_or_the_intended_one(identity: str, tmp_path: Path) -> None:
    """A scenario differs from the record only where that is listed, and wherever that is listed for it alone."""
    found = observe(identity, tmp_path / "stage")
    unexpected = unlisted(found, INTENDED)
    assert not unexpected, "\n".join(map(str, unexpected))
    assert not stale(found, [entry for entry in INTENDED if entry.scenario == identity])


@pytest.mark.parametrize(
    "entry", [entry for entry in INTENDED if entry.scenario not in SCENARIOS], ids=lambda e: e.place
)
def test_an_entry_for_several_scenarios_covers_a_difference(entry: Intended, tmp_path: Path) -> None:
    """A difference that is listed by a pattern is seen in one of the scenarios that the pattern names."""
    names = matching(SCENARIOS, entry.scenario)
    assert any(entry.covers(found) for name in names for found in observe(name, tmp_path / name.replace(".", "_")))


def test_every_entry_names_its_decision() -> None:
    """An intended difference says by which paragraph of the kernel's contract it is intended, and why."""
    assert [entry for entry in INTENDED if not (entry.decision.startswith("§") and entry.reason)] == []


def test_the_record_has_an_answer_for_every_scenario() -> None:
    """Every scenario file is an area, and exactly its scenarios have recorded answers."""
    helpers = {"__init__", "base", "parts", "module_factory"}
    assert {path.stem for path in Path(__file__).with_name("scenarios").glob("*.py")} - helpers == set(AREAS)
    assert set(ANSWERS) == set(SCENARIOS)


@pytest.mark.system
def test_the_published_kernel_still_answers_as_recorded() -> None:
    """The published kernel, played now as a black box, gives the recorded answers."""
    made = subprocess.run(["make", ".peer-venv/.ready"], cwd=ROOT, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"the published kernel cannot be installed: {made.stderr.strip().splitlines()[-1]}")
    changed = compare(ANSWERS, play_all(ROOT / ".peer-venv" / "bin" / "python"))
    assert not changed, "\n".join(map(str, changed))
