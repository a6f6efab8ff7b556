"""Kill `amplifier run` at random moments, look at what is left, and write a section of docs/reliability.md.

    python benchmarks/run_kills.py [--kills 500] [--seed 1] [--no-document] [--output FILE]

Each run plays a scenario of several rounds of tool calls, with pauses, and is killed with SIGKILL at a moment that
chance picks. Then the log is read: every line that a watcher saw while the run was alive must be there, numbered
without gaps; at most the last line may be torn, and the reader skips it; a reopened log appends cleanly; and the next
run in the same project must work. Exits 1 when any of this does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from app_run import surroundings
from document import ROOT, circumstances, table, write_section
from exits import HEADING

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


@dataclass
class Found:
    """What was left of one killed run."""

    lines: int = 0
    torn: int = 0
    ended_first: bool = False
    violations: list[str] = field(default_factory=list)


def write_project(folder: Path) -> None:
    """Make a project with the bundle, the scenario and the tool."""
    package = folder / "modules" / "amplifier_module_tool_pages"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(TOOL)
    (folder / "bundle.yaml").write_text(BUNDLE)
    turns = [
        {
            "text": f"Step {number}.",
            "delay_ms": 25,
            "tool_calls": [
                {"id": f"c{number}_{index}", "name": "pages", "arguments": {"number": 10 * number + index, "path": "."}}
                for index in range(3)
            ],
        }
        for number in range(ROUNDS)
    ]
    # JSON is YAML too, and is written without a library.
    (folder / "scenario.yaml").write_text(json.dumps({"turns": [*turns, {"text": "All done."}]}))


def command(*arguments: str) -> list[str]:
    """Return the command line of `amplifier run` in the project."""
    return [sys.executable, "-m", "amplifier_app_cli", "run", "--bundle", "bundle.yaml", *arguments, "go"]


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment of a run: a separate home, and the tool."""
    environment = surroundings(folder)
    environment["PYTHONPATH"] = os.pathsep.join([str(folder / "modules"), environment["PYTHONPATH"]])
    return environment


def logs_of(folder: Path) -> set[Path]:
    """Return the logs of all runs in the project."""
    return set((folder / "home").glob("projects/*/sessions/*/events.jsonl"))


def kill_once(folder: Path, delay: float) -> Found:
    """Start a run, kill it after `delay` seconds, and look at what it left."""
    before = logs_of(folder)
    end = time.monotonic() + delay
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(
            command(), cwd=folder, env=environment_of(folder), stdin=subprocess.DEVNULL, stdout=nowhere, stderr=nowhere
        )
    found = Found()
    while time.monotonic() < end and process.poll() is None:
        time.sleep(min(0.005, max(0.0, end - time.monotonic())))
    log = next(iter(logs_of(folder) - before), None)
    acknowledged = log.read_bytes().count(b"\n") if log is not None else 0
    found.ended_first = process.poll() is not None
    process.kill()
    process.wait(SECONDS)
    log = log or next(iter(logs_of(folder) - before), None)
    if log is not None:
        inspect(log.parent, acknowledged, found)
    elif found.ended_first:
        found.violations.append(f"the run ended with status {process.returncode} and left no log")
    return found


def inspect(session: Path, acknowledged: int, found: Found) -> None:
    """Read the log of a killed run, then reopen and append to it, and note everything that does not hold."""
    from amplifier_kit.log.reader import read_log
    from amplifier_kit.log.verify import verify_log
    from amplifier_kit.log.writer import SessionLog

    torn: list[object] = []
    lines = list(read_log(session, torn.append))
    found.lines, found.torn = len(lines), len(torn)
    numbers = [line.seq for line in lines]
    if numbers != list(range(1, len(lines) + 1)):
        found.violations.append(f"numbers have gaps: {numbers[:3]}...{numbers[-3:]}")
    if len(lines) < acknowledged:
        found.violations.append(f"{acknowledged} lines were seen, {len(lines)} are left")
    if len(torn) > 1:
        found.violations.append(f"{len(torn)} torn lines")
    for line in lines:
        try:
            line.resolved()
        except LookupError as error:
            found.violations.append(f"line {line.seq} names what is not there: {error}")
    before = (session / "events.jsonl").read_bytes()
    with SessionLog(session) as log:
        log.write({"event": "probe:reopened", "lvl": "INFO", "session_id": session.name, "data": {}})
    if not (session / "events.jsonl").read_bytes().startswith(before):
        found.violations.append("reopening changed lines that were there")
    again = list(read_log(session, torn.append))
    if [line.seq for line in again] != list(range(1, len(lines) + 2)) or again[-1].event != "probe:reopened":
        found.violations.append("a reopened log does not go on cleanly")
    report = verify_log(session)
    if not report.ok:
        found.violations.append(f"the log does not fit itself: {report.problems[:3]}")


def next_run_works(folder: Path) -> str | None:
    """Run once to the end; return what is wrong, None when nothing is."""
    done = subprocess.run(
        command("--quiet"),
        cwd=folder,
        env=environment_of(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode or not done.stdout.endswith("All done.\n") or done.stderr:
        return f"the next run: status {done.returncode}, {done.stdout[-100:]!r}, {done.stderr[-300:]!r}"
    return None


def kill_many(kills: int, seed: int, every: int = 10) -> list[Found]:
    """Kill `kills` runs in one project, and let every so many-th be followed by a run that is left alone."""
    chance = random.Random(seed)
    all_found: list[Found] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(folder)
        next_run_works(folder)  # once, so that the bytecode is written
        started = time.monotonic()
        next_run_works(folder)
        length = time.monotonic() - started
        for number in range(kills):
            found = kill_once(folder, chance.uniform(0.0, length))
            if (number % every == every - 1 or number == kills - 1) and (wrong := next_run_works(folder)):
                found.violations.append(wrong)
            all_found.append(found)
    return all_found


def describe(all_found: list[Found]) -> str:
    """Return the table of what was counted."""
    counted = Counter(bool(found.violations) for found in all_found)
    return table(
        ["Kills", "Lines left", "Torn last lines", "Ended before the kill", "Runs with a violation"],
        [
            [
                str(len(all_found)),
                f"{sum(found.lines for found in all_found):,}",
                str(sum(found.torn for found in all_found)),
                str(sum(found.ended_first for found in all_found)),
                str(counted[True]),
            ]
        ],
    )


def main() -> int:
    """Kill, count, print, write, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-document", action="store_true", help="print only")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "reliability.md")
    options = parser.parse_args()
    halves = [options.kills - options.kills // 2, options.kills // 2]
    with ThreadPoolExecutor(len(halves)) as pool:
        parts = pool.map(kill_many, halves, [options.seed, options.seed + 1])
        all_found = [found for part in parts for found in part]
    rendered = describe(all_found)
    violations = [violation for found in all_found for violation in found.violations]
    print("\n".join([rendered, *violations]))
    if not options.no_document:
        body = (
            f"## `amplifier run`, killed at random moments\n\n{circumstances()}\n\n{rendered}\n\n"
            f"Each run plays {ROUNDS} rounds of three tool calls with results of about 8 kB and is killed with SIGKILL "
            "at any moment between its start and its end, two runs at a time. A violation would be: a line that "
            "was seen and is gone, a gap in the numbers, more than one torn line, a line that names a blob that is not "
            "there, a reopened log that does not go on cleanly, or a next run in the same project that does not work.\n"
            "`python benchmarks/run_kills.py` counts again."
        )
        write_section(options.output, HEADING, "run-kills", body)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
