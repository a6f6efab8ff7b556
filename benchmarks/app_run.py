"""Measure how long the `amplifier` program takes, beside the floor: what any such program has to import.

    python benchmarks/app_run.py [--rounds 15] [--json]

The floor is a program that starts the interpreter, asyncio, click, yaml and one pydantic model, and ends. Every round
starts each program once, in changing order. The lower quartile of the rounds counts: what else the machine did at the
time only ever adds. Prints a table, or with --json one JSON list of rows {what, value, unit, target, met}; exits 1 when
a target is missed, 2 when a program fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from children import environment
from document import ROOT, table

#: How many times the floor a run may take: with the smallest bundle, and with the one that ships.
RUN_OF_FLOOR = 1.35
DEFAULT_RUN_OF_FLOOR = 2.0
VERSION_SECONDS = 0.12
HELP_SECONDS = 0.15

FLOOR = """\
import asyncio
import click
import yaml
from pydantic import BaseModel

class One(BaseModel):
    number: int

async def main():
    return One(number=1)

asyncio.run(main())
"""
BUNDLE = """\
bundle: {name: bench}
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
providers:
  - {module: provider-mock, config: {responses: [The answer.]}}
hooks:
  - {module: hooks-logging}
"""


class Row(TypedDict):
    """One measured row of the table of numbers."""

    what: str
    value: float
    unit: str
    target: str
    met: bool


class ProgramFailed(Exception):
    """A program that is measured did not do what it is for."""


@dataclass
class Program:
    """One of the programs that are started, and how long each start took."""

    arguments: list[str]
    #: What it must print, so that a program that fails fast does not win.
    prints: str
    seconds: list[float] = field(default_factory=list)

    @property
    def taken(self) -> float:
        """Return the lower quartile of what was measured."""
        return sorted(self.seconds)[len(self.seconds) // 4]

    def start(self, folder: Path) -> None:
        """Run the program once; raise ProgramFailed, with its last words, when it does not print what it must."""
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *self.arguments],
            cwd=folder,
            env=surroundings(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.seconds.append(time.perf_counter() - started)
        if done.returncode or self.prints not in done.stdout:
            raise ProgramFailed(f"{' '.join(self.arguments)}: exit status {done.returncode}\n{done.stderr[-2000:]}")


def surroundings(folder: Path) -> dict[str, str]:
    """Return an environment whose home is empty and whose modules are found whether or not they are installed."""
    modules = os.pathsep.join(str(module) for module in sorted((ROOT / "modules").iterdir()))
    return {**environment(), "AMPLIFIER_HOME": str(folder / "home"), "PYTHONPATH": modules}


def measure(rounds: int) -> list[Row]:
    """Start every program in `rounds` rounds and return the rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "floor.py").write_text(FLOOR)
        (folder / "bundle.yaml").write_text(BUNDLE)
        program = ["-m", "amplifier_app_cli"]
        floor = Program(["floor.py"], "")
        run = Program([*program, "run", "--bundle", "bundle.yaml", "hello"], "The answer.\n")
        default = Program([*program, "run", "--bundle", "default", "hello"], "scripted model")
        version = Program([*program, "--version"], "amplifier ")
        usage = Program([*program, "--help"], "Usage: ")
        programs = [floor, run, default, version, usage]
        for one in programs:  # once unmeasured, so that the bytecode is written and the files are in memory
            one.start(folder)
            one.seconds.clear()
        for number in range(rounds):
            for one in programs if number % 2 else reversed(programs):
                one.start(folder)
    return [
        row_of_ratio("mock provider", run.taken, floor.taken, RUN_OF_FLOOR),
        row_of_ratio("default bundle", default.taken, floor.taken, DEFAULT_RUN_OF_FLOOR),
        row_of_time("amplifier --version", version.taken, VERSION_SECONDS),
        row_of_time("amplifier --help", usage.taken, HELP_SECONDS),
    ]


def row_of_ratio(what: str, run: float, floor: float, most: float) -> Row:
    """Make the row of a run; the floor is part of its name, as it is measured in the same rounds."""
    ratio = run / floor
    return Row(
        what=f"`amplifier run`, {what}: {run:.3f} s, import floor {floor:.3f} s",
        value=round(ratio, 2),
        unit="× floor",
        target=f"≤ {most:g}",
        met=ratio <= most,
    )


def row_of_time(what: str, taken: float, target: float) -> Row:
    """Return the row of a program with an absolute time limit."""
    return Row(what=f"`{what}`", value=round(taken, 3), unit="s", target=f"≤ {target:g}", met=taken <= target)


def main() -> int:
    """Measure, print and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    try:
        rows = measure(options.rounds)
    except ProgramFailed as failure:
        print(f"STOPPED: {failure}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(rows, ensure_ascii=False))
    else:
        cells = [
            [row["what"], f"{row['value']:g} {row['unit']}", row["target"], "yes" if row["met"] else "**no**"]
            for row in rows
        ]
        print(table(["What", "Ours", "Target", "Met"], cells))
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
