"""Measure the digital twin: a cold check of a whole installation, a warm relaunch, a command inside.

    python benchmarks/twin.py [--relaunches 5] [--execs 20] [--write]

Everything is done with the program itself, in an empty home, so that the check is cold: no layer, no wheels, nothing of
the package index. With --write the table goes into its section of docs/digital-twin.md. Exits 1 when the check does not
pass, 2 when something cannot be done; a missed time is said in the table, and no fault: machines differ.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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
    """The program, with a home of its own."""

    def __init__(self, home: Path) -> None:
        self._environment = {**os.environ, "AMPLIFIER_HOME": str(home)}

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


def measure(home: Path, relaunches: int, execs: int) -> tuple[list[list[str]], dict[str, float]]:
    """Return the rows of the table, and how long the parts of the cold check took."""
    program = Program(home)
    cold, verdict = program.run("check", PROFILE, "--var", f"REPO={ROOT}")
    warm, inside = [], []
    for _ in range(relaunches):
        seconds, launched = program.run("launch", PROFILE, "--var", f"REPO={ROOT}", "--name", "bench")
        if not launched["warm"]:
            raise TwinFailed("the relaunch was not warm: did the working tree change meanwhile?")
        warm.append(seconds)
        inside += [program.run("exec", "bench", "--", "true")[0] for _ in range(execs // relaunches)]
        program.run("destroy", "bench")
    rows = [
        row(f"`check {PROFILE}`, cold, {len(verdict['checks'])} checks", cold, CHECK_SECONDS),
        row("`launch`, warm", statistics.median(warm), RELAUNCH_SECONDS),
        row("`exec ID -- true`", statistics.median(inside), EXEC_SECONDS),
    ]
    return rows, verdict["timings"]


def row(what: str, seconds: float, target: float) -> list[str]:
    """Return one row: what, how long, the target, whether it was met."""
    return [what, f"{seconds:.2f} s", f"≤ {target:g} s", "yes" if seconds <= target else "**no**"]


def main() -> int:
    """Measure, print and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--relaunches", type=int, default=5)
    parser.add_argument("--execs", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="write the table into docs/digital-twin.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            rows, timings = measure(Path(folder), options.relaunches, options.execs)
        except TwinFailed as failure:
            print(f"STOPPED: {failure}", file=sys.stderr)
            return 2
    parts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in timings.items())
    text = f"{table(['What', 'Ours', 'Target', 'Met'], rows)}\n\nParts of the cold check: {parts}. {circumstances()}."
    print(text)
    if options.write:
        write_section(PAGE, "# The digital twin", SECTION, f"## How fast it is\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
