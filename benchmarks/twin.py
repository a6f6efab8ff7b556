"""Measure the digital twin: checks that start with less and less to do, a launch, a command inside.

    python benchmarks/twin.py [--checks 1] [--launches 5] [--execs 10] [--repo PATH] [--program PATH] [--write]

Everything is done with the program itself, in an empty home: no wheels, no downloads, nothing provisioned; only the
base image may exist already, because the engine keeps it. With --write the table goes into its section of
docs/digital-twin.md. --program measures another installation, to compare both in the same minutes. Exits 2 when
something cannot be done, or a check does not pass; a missed target is shown in the table, and no error: machines
differ.
The median decides whether a target is met; the best is shown beside it, and how busy the machine was.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
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

#: The least that a universe can be: what its container costs, and nothing else.
SMALL = "dtu: 1\nname: small\nbase: {image: host}\nchecks: [{name: it-runs, run: 'true'}]\n"
COLD_SECONDS = 30.0
WARM_SECONDS = 12.0
SNAPSHOT_SECONDS = 4.0
LAUNCH_SECONDS = 0.8
EXEC_SECONDS = 0.5


class TwinFailed(Exception):
    """The program did not do what it was asked for."""


class Program:
    """The program, with a separate home."""

    def __init__(self, home: Path, program: Path) -> None:
        self._program = program
        self._environment = {**os.environ, "AMPLIFIER_HOME": str(home)}
        # Where it is set, every start would compile the program again, which no user's does.
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, *arguments: str) -> tuple[float, dict[str, Any]]:
        """Run it once; return how long it took and what it answered. Raises TwinFailed with its last words."""
        started = time.perf_counter()
        done = subprocess.run(
            [str(self._program), *arguments],
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
    """Seconds of each, and the answer to every cold check."""

    cold: list[float]
    warm: list[float]
    provisioned: list[float]
    launch: list[float]
    inside: list[float]
    verdicts: list[dict[str, Any]]


def measure(home: Path, options: argparse.Namespace, found: Measured) -> None:
    """Add checks, launches and commands inside to what was measured."""
    program = Program(home, options.program)
    check = ("check", PROFILE, "--var", f"REPO={options.repo.resolve()}")
    small = home / "small.yaml"
    small.write_text(SMALL, encoding="utf-8")
    program.run("check", str(small))  # makes the base image where there is none
    cold, verdict = program.run(*check)
    found.cold.append(cold)
    found.verdicts.append(verdict)
    # Wheels and downloads stay; what was installed from them does not.
    shutil.rmtree(home / "digital-twin" / "cache" / "provisioned", ignore_errors=True)
    found.warm.append(program.run(*check)[0])
    for _ in range(2):
        found.provisioned.append(program.run(*check)[0])
    for _ in range(options.launches):
        found.launch.append(program.run("launch", str(small), "--name", "bench")[0])
        count = max(1, options.execs // options.launches)
        found.inside.extend(program.run("exec", "bench", "--", "true")[0] for _ in range(count))
        program.run("destroy", "bench")


def rows_of(found: Measured) -> list[list[str]]:
    """Return the rows of the table."""
    name = f"`check {PROFILE}`"
    return [
        row(f"{name}, cold", found.cold, COLD_SECONDS),
        row(f"{name}, wheels and downloads cached", found.warm, WARM_SECONDS),
        row(f"{name}, provisioned before", found.provisioned, SNAPSHOT_SECONDS),
        row("`launch` of an empty universe", found.launch, LAUNCH_SECONDS),
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
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--execs", type=int, default=10)
    beside = Path(sys.executable).with_name("amplifier-digital-twin")
    parser.add_argument("--program", type=Path, default=beside, help="the program to measure")
    parser.add_argument(
        "--repo", type=Path, default=ROOT, help="the working tree to install; a copy that does not change meanwhile"
    )
    parser.add_argument("--write", action="store_true", help="write the table into docs/digital-twin.md")
    options = parser.parse_args()
    load = [os.getloadavg()[0]]
    found = Measured([], [], [], [], [], [])
    try:
        for _ in range(options.checks):
            with tempfile.TemporaryDirectory() as folder:
                measure(Path(folder), options, found)
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
        f"Cold: no wheels, no downloads, nothing provisioned; the base image exists (mmdebstrap makes it once). "
        f"Parts of the best cold check: {parts}. "
        f"{circumstances()}; {busy}."
    )
    print(text)
    if options.write:
        write_section(PAGE, "# The digital twin", SECTION, f"## How fast it is\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
