"""Measure the digital twin: a cold check of a whole installation, a warm relaunch, a command inside.

    python benchmarks/twin.py [--checks 1] [--relaunches 5] [--execs 20] [--repo PATH] [--write]

Everything is done with the program itself, in an empty home, so that the check is cold: no layer, no wheels, nothing of
the package index, nothing remembered of the machine. What an installer of the host has cached is not used either. With
--write the table goes into its section of docs/digital-twin.md. Exits 2 when something cannot be done, or the check
does not pass; a missed time is said in the table, and no fault: machines differ. The median decides whether a target is
met; the best is shown beside it, and how busy the machine was, because others may be working on it. How long the
processors worked for a check is said, too: that changes far less with what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from document import ROOT, circumstances, table, write_section

PROFILE = "e2e-event-logging"
PAGE = ROOT / "docs" / "digital-twin.md"
SECTION = "speed"

CHECK_SECONDS = 15.0
RELAUNCH_SECONDS = 0.5
EXEC_SECONDS = 0.2


class TwinFailed(Exception):
    """The program did not do what it was asked for."""


class Program:
    """The program, with a separate home."""

    def __init__(self, home: Path) -> None:
        self._environment = {**os.environ, "AMPLIFIER_HOME": str(home)}
        # Where it is set, every start would compile the program again, which no user's does.
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, *arguments: str) -> tuple[float, dict[str, Any]]:
        """Run it once; return how long it took and what it answered. Raises TwinFailed with its last words."""
        started = time.perf_counter()
        done = subprocess.run(
            [str(Path(sys.executable).with_name("amplifier-digital-twin")), *arguments],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        seconds = time.perf_counter() - started
        if done.returncode not in (0, 1) or not done.stdout:
            raise TwinFailed(f"{' '.join(arguments)}: exit status {done.returncode}\n{done.stderr[-3000:]}")
        answer: dict[str, Any] = json.loads(done.stdout)
        if "error" in answer or done.returncode == 1:
            raise TwinFailed(f"{' '.join(arguments)}: {done.stderr[-3000:]}")
        return seconds, answer


class Measured(NamedTuple):
    """Seconds of each, what the cold checks answered, and how long all processes of each of those worked."""

    cold: list[float]
    warm: list[float]
    inside: list[float]
    verdicts: list[dict[str, Any]]
    worked: list[float]


def worked() -> float:
    """Return the processor seconds of every process that this one, or one that came from it, has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(home: Path, repo: Path, relaunches: int, execs: int, found: Measured) -> None:
    """Add a cold check, warm launches and commands inside to what was measured."""
    program = Program(home)
    before = worked()
    # The program waits for its keeper, and that for all that it started: nothing is left out.
    cold, verdict = program.run("check", PROFILE, "--var", f"REPO={repo}")
    found.worked.append(worked() - before)
    found.cold.append(cold)
    found.verdicts.append(verdict)
    for _ in range(relaunches):
        seconds, launched = program.run("launch", PROFILE, "--var", f"REPO={repo}", "--name", "bench")
        if not launched["warm"]:
            raise TwinFailed("the relaunch was not warm: did the working tree change meanwhile? (--repo takes a copy)")
        found.warm.append(seconds)
        found.inside.extend(program.run("exec", "bench", "--", "true")[0] for _ in range(max(1, execs // relaunches)))
        program.run("destroy", "bench")


def rows_of(found: Measured) -> list[list[str]]:
    """Return the rows of the table."""
    return [
        row(f"`check {PROFILE}`, cold, {len(found.verdicts[0]['checks'])} checks", found.cold, CHECK_SECONDS),
        row("`launch`, warm", found.warm, RELAUNCH_SECONDS),
        row("`exec ID -- true`", found.inside, EXEC_SECONDS),
    ]


def row(what: str, seconds: list[float], target: float) -> list[str]:
    """Return one row: what, how often, median and best, the target, whether the median met it."""
    median = statistics.median(seconds)
    times = [str(len(seconds)), f"{median:.2f} s", f"{min(seconds):.2f} s"]
    return [what, *times, f"≤ {target:g} s", "yes" if median <= target else "**no**"]


def main() -> int:
    """Measure, print and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", type=int, default=1, help="how many cold checks, each in an empty home")
    parser.add_argument("--relaunches", type=int, default=5)
    parser.add_argument("--execs", type=int, default=20)
    parser.add_argument(
        "--repo", type=Path, default=ROOT, help="the working tree to install; a copy that does not change meanwhile"
    )
    parser.add_argument("--write", action="store_true", help="write the table into docs/digital-twin.md")
    options = parser.parse_args()
    load = [os.getloadavg()[0]]
    found = Measured([], [], [], [], [])
    try:
        for _ in range(options.checks):
            with tempfile.TemporaryDirectory() as folder:
                measure(Path(folder), options.repo.resolve(), options.relaunches, options.execs, found)
    except TwinFailed as failure:
        print(f"STOPPED: {failure}", file=sys.stderr)
        return 2
    load.append(os.getloadavg()[0])
    best = found.cold.index(min(found.cold))
    timings = found.verdicts[best]["timings"]
    parts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in timings.items())
    busy = f"load average before and after: {load[0]:.1f}, {load[1]:.1f}"
    header = ["What", "Times", "Median", "Best", "Target", "Met"]
    text = (
        f"{table(header, rows_of(found))}\n\n"
        f"Cold means that none of the twin's own caches exist: no wheels, no files of the package index, no layer. "
        f"Parts of the best cold check: {parts}; its processes worked for {found.worked[best]:.1f} s. "
        f"{circumstances()}; {busy}."
    )
    print(text)
    if options.write:
        write_section(PAGE, "# The digital twin", SECTION, f"## How fast it is\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
