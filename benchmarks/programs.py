"""Measurements that are programs of their own: they are started, and what they print is read as rows."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from app_run import ProgramFailed
from children import HERE, environment
from document import ROOT
from harness import Row, Setting

#: The longest that `make test` and `.ci/run` may take, in minutes, on two quiet cores.
TEST_MINUTES = 8.0
CI_MINUTES = 12.0


def run(*command: str, statuses: tuple[int, ...] = (0, 1)) -> str:
    """Run a program in the working tree and return what it printed; raise ProgramFailed with its last words."""
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode not in statuses:
        said = (done.stdout[-1000:] + done.stderr[-2000:]).strip()
        raise ProgramFailed(f"{' '.join(command)}: exit status {done.returncode}\n{said}")
    return done.stdout


def search(setting: Setting) -> list[Row]:
    """Measure grep and glob beside ripgrep, over a tree of `size` files."""
    options = ("--files", str(setting.size), "--rounds", str(setting.rounds), "--json")
    found = json.loads(run(sys.executable, str(HERE / "search.py"), *options))
    return [
        Row(f"{row['what']}, beside `{row['other']}`", row["ms"], floor=row["other_ms"], most_of_floor=row["target"])
        for row in found["rows"]
    ]


def twin(setting: Setting) -> list[Row]:
    """Measure the digital twin, with one cold check a round; the rows are the lines of the table it prints."""
    lines = run(sys.executable, str(HERE / "twin.py"), "--checks", str(setting.rounds)).splitlines()
    rows = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 6 and cells[2].endswith(" s"):
            what, _, median, _, target, _ = cells
            rows.append(Row(what, float(median.split()[0]), "s", most=float(target.removeprefix("≤").split()[0])))
    if not rows:
        raise ProgramFailed("twin.py printed no table with a median in seconds")
    return rows


def tests(setting: Setting) -> list[Row]:
    """Time `make test` and `.ci/run`, of which every test must pass; a size of 0 times the collection of one file."""
    trial = (
        (sys.executable, "-m", "pytest", "-q", "--collect-only", "tests/test_benchmarks.py"),
        "collect one file",
        1,
    )
    whole = ((("make", "test"), "`make test`", TEST_MINUTES), ((".ci/run",), "`.ci/run`", CI_MINUTES))
    rows = []
    for command, what, most in whole[: setting.size] or (trial,):
        started = time.monotonic()
        run(*command, statuses=(0,))
        rows.append(Row(what, (time.monotonic() - started) / 60, "min", most=most))
    return rows
