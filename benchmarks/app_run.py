"""Measure how long the `amplifier` program takes, beside the floor: what any such program has to import.

The floor is a program that starts the interpreter, asyncio, click, yaml and one pydantic model, and ends. Every round
starts each program once, in changing order. The lower quartile of the rounds counts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from children import environment
from harness import Row, Setting, lower_quartile

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
        return lower_quartile(self.seconds)

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
    """Return an environment whose home is in the folder."""
    return {**environment(), "AMPLIFIER_HOME": str(folder / "home")}


def measure(setting: Setting) -> list[Row]:
    """Start every program in every round and return the rows."""
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
        for number in range(setting.rounds):
            for one in programs if number % 2 else reversed(programs):
                one.start(folder)
    return [
        Row("`amplifier run`, mock provider", run.taken, "s", floor=floor.taken, most_of_floor=RUN_OF_FLOOR),
        Row(
            "`amplifier run`, default bundle", default.taken, "s", floor=floor.taken, most_of_floor=DEFAULT_RUN_OF_FLOOR
        ),
        Row("`amplifier --version`", version.taken, "s", most=VERSION_SECONDS),
        Row("`amplifier --help`", usage.taken, "s", most=HELP_SECONDS),
    ]
