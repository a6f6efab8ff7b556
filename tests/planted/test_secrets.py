"""No secret of a session gets into any file, and every one gets to whom it was meant for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from . import count, plants


def test_forty_planted_secrets_stay_out_of_every_file(tmp_path: Path) -> None:
    """Forty secrets reach tools and model intact, and no file of the home; a second run sees masks and says so."""
    output = tmp_path / "reliability.md"
    command = [sys.executable, "-m", "planted.count", "--seed", "1", "--output", str(output)]
    tests = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=tests, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counted = json.loads(done.stdout)
    assert (counted["planted"], counted["intact"], counted["leaks"]) == (40, 40, [])
    assert (counted["resumed_leaks"], counted["said_so"]) == (0, True)
    assert "| all | 40 |  | 40 | 0 |" in output.read_text(encoding="utf-8")


def test_a_leak_would_be_found(tmp_path: Path) -> None:
    """The count can fail: a secret in any file is found, plain, escaped, quoted or encoded."""
    garden = plants.plant(2)
    assert count.leaks(garden, tmp_path) == []
    for number, one in enumerate(garden.plants):
        (tmp_path / "deep").mkdir(exist_ok=True)
        for index, trace in enumerate(one.traces):
            (tmp_path / "deep" / f"{number}-{index}").write_bytes(b"before " + trace + b" after")
    found = {one for one, _ in count.leaks(garden, tmp_path)}
    assert found == set(garden.plants)


def test_secrets_are_made_anew_from_a_seed() -> None:
    """The same seed makes the same secrets, another seed others, and no two are the same."""
    first, again, other = (plants.plant(seed).plants for seed in (3, 3, 4))
    assert first == again
    assert not {one.secret for one in first} & {one.secret for one in other}
    assert len({one.secret for one in first}) == 40


@pytest.mark.parametrize("change", [{"intact": 39}, {"leaks": [["a", "b", "c"]]}, {"said_so": False}, {"names": []}])
def test_one_thing_wrong_is_enough(change: dict[str, Any]) -> None:
    """The count only holds when everything does."""
    good = {
        "planted": 40,
        "intact": 40,
        "leaks": [],
        "resumed_leaks": 0,
        "leaky_diagnostics": 0,
        "names": sorted(count.WRITTEN),
        "masks": 1,
        "resumed_masks": 1,
        "said_so": True,
    }
    assert count.holds(good)
    assert not count.holds({**good, **change})
