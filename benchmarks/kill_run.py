"""`amplifier run`, killed: no line that was seen is lost, the log can be reopened, and the next run works.

Each run plays a scenario of several rounds of tool calls, with pauses. Every line that a watcher saw while the run was
alive must be there, numbered without gaps; at most the last line may be torn, and the reader skips it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

from app_run import surroundings
from kills import Tally

#: The longest that anything may take.
SECONDS = 60

BUNDLE = """\
bundle: {name: kills}
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
providers:
  - {module: provider-mock, config: {scenario: scenario.yaml}}
tools:
  - {module: tool-pages}
hooks:
  - {module: hooks-redaction}
  - {module: hooks-logging}
"""
#: A tool whose results are too large for a line, so that there are blobs to lose as well.
TOOL = """\
import asyncio

from amplifier_core import ToolResult


class Pages:
    name = "pages"
    description = "Return pages of text"
    input_schema = {"type": "object", "properties": {"number": {"type": "integer"}}}
    action = "filesystem.read"

    async def execute(self, input):
        await asyncio.sleep(0.01)
        return ToolResult(output=f"page {input['number']} " * 900)


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Pages())
"""
ROUNDS = 12


def write_project(folder: Path, rounds: int, delay_ms: int) -> None:
    """Make a project with the bundle, the tool, and a scenario of `rounds` rounds of three calls."""
    package = folder / "modules" / "amplifier_module_tool_pages"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(TOOL)
    (folder / "bundle.yaml").write_text(BUNDLE)
    turns = [
        {
            "text": f"Step {number}.",
            "delay_ms": delay_ms,
            "tool_calls": [
                {"id": f"c{number}_{index}", "name": "pages", "arguments": {"number": 10 * number + index, "path": "."}}
                for index in range(3)
            ],
        }
        for number in range(rounds)
    ]
    # JSON is YAML too, and is written without a library.
    (folder / "scenario.yaml").write_text(json.dumps({"turns": [*turns, {"text": "All done."}]}), encoding="utf-8")


def command(prompt: str, session: str | None = None) -> list[str]:
    """Return the command line of a run: of a new session, or of one that goes on."""
    which = ["--bundle", "bundle.yaml"] if session is None else ["--resume", session]
    return [sys.executable, "-m", "amplifier_app_cli", "run", "--quiet", *which, prompt]


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment of a run: a separate home, and the tool."""
    return {**surroundings(folder), "PYTHONPATH": str(folder / "modules")}


def start(folder: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start a run whose output nobody reads."""
    with open(os.devnull, "wb") as nowhere:
        return subprocess.Popen(
            arguments, cwd=folder, env=environment_of(folder), stdin=subprocess.DEVNULL, stdout=nowhere, stderr=nowhere
        )


def fault_of_whole_run(folder: Path, arguments: list[str], *, is_silent: bool = False) -> str | None:
    """Run to the end; return what is wrong, None when nothing is. A silent run has nothing to warn of."""
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=environment_of(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode or not done.stdout.endswith("All done.\n") or (is_silent and done.stderr):
        return f"the next run: status {done.returncode}, {done.stdout[-100:]!r}, {done.stderr[-300:]!r}"
    return None


def logs_of(folder: Path) -> set[Path]:
    """Return the logs of all runs in the project."""
    return set((folder / "home").glob("projects/*/sessions/*/events.jsonl"))


class Runs:
    """Runs of the program, in one project."""

    title: ClassVar = "`amplifier run`"
    words: ClassVar = (
        f"Each run plays {ROUNDS} rounds of three tool calls with results of about 8 kB and is killed at any moment "
        "between its start and its end, two runs at a time. A fault would be: a line that was seen and is gone, a gap "
        "in the numbers, more than one torn line, a line that names a blob that is not there, a reopened log that does "
        "not go on cleanly, or a next run in the same project that does not work.\n`make bench-kills` counts again."
    )
    shown: ClassVar = {"lines": "Lines left", "torn": "Torn last lines", "ended": "Ended before the kill"}
    at_once: ClassVar = 2

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        write_project(folder, ROUNDS, delay_ms=25)
        fault_of_whole_run(folder, command("go"))  # once, so that the bytecode is written
        started = time.monotonic()
        fault_of_whole_run(folder, command("go"))
        self._length = time.monotonic() - started

    def kill(self, chance: random.Random, tally: Tally) -> None:
        """Start a run, kill it, and look at what it left; every tenth is followed by one that is left alone."""
        before = logs_of(self._folder)
        end = time.monotonic() + chance.uniform(0.0, self._length)
        process = start(self._folder, command("go"))
        while time.monotonic() < end and process.poll() is None:
            time.sleep(min(0.005, max(0.0, end - time.monotonic())))
        log = next(iter(logs_of(self._folder) - before), None)
        seen = log.read_bytes().count(b"\n") if log is not None else 0
        has_ended = process.poll() is not None
        process.kill()
        process.wait(SECONDS)
        tally.counts.update(kills=1, ended=has_ended)
        log = log or next(iter(logs_of(self._folder) - before), None)
        if log is not None:
            inspect(log.parent, seen, tally)
        elif has_ended:
            tally.faults.append(f"the run ended with status {process.returncode} and left no log")
        if tally.counts["kills"] % 10 == 0:
            self.finish(tally)

    def finish(self, tally: Tally) -> None:
        """Let a run come to its end."""
        if fault := fault_of_whole_run(self._folder, command("go"), is_silent=True):
            tally.faults.append(fault)


def inspect(session: Path, acknowledged: int, tally: Tally) -> None:
    """Read the log of a killed run, then reopen and append to it, and note everything that does not hold."""
    from amplifier_kit.log.reader import read_log
    from amplifier_kit.log.verify import verify_log
    from amplifier_kit.log.writer import SessionLog

    torn: list[object] = []
    lines = list(read_log(session, torn.append))
    tally.counts.update(lines=len(lines), torn=len(torn))
    numbers = [line.seq for line in lines]
    if numbers != list(range(1, len(lines) + 1)):
        tally.faults.append(f"numbers have gaps: {numbers[:3]}...{numbers[-3:]}")
    if len(lines) < acknowledged:
        tally.faults.append(f"{acknowledged} lines were seen, {len(lines)} are left")
    if len(torn) > 1:
        tally.faults.append(f"{len(torn)} torn lines")
    for line in lines:
        try:
            line.resolved()
        except LookupError as error:
            tally.faults.append(f"line {line.seq} names what is not there: {error}")
    before = (session / "events.jsonl").read_bytes()
    with SessionLog(session) as log:
        log.write({"event": "probe:reopened", "lvl": "INFO", "session_id": session.name, "data": {}})
    if not (session / "events.jsonl").read_bytes().startswith(before):
        tally.faults.append("reopening changed lines that were there")
    again = list(read_log(session, torn.append))
    if [line.seq for line in again] != list(range(1, len(lines) + 2)) or again[-1].event != "probe:reopened":
        tally.faults.append("a reopened log does not go on cleanly")
    report = verify_log(session)
    if not report.ok:
        tally.faults.append(f"the log does not fit itself: {report.problems[:3]}")
