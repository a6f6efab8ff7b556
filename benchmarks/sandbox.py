"""Measure what the sandbox adds to a command.

    python benchmarks/sandbox.py [--rounds 15] [--json]

The same command is run with and without the sandbox, in turns, by the code that runs the commands of `bash`: a
project with a repository, the whole of what is looked at and mounted for every command, the supervisor, the end of all
processes. The difference of the lower quartiles counts: what else the machine did at the time only ever adds. Finding
out whether there is a sandbox, which is done once per process, is a separate row. Prints a table, or with --json one
object `{"rows": [{"what", "ms", "target_ms", "met"}]}`; exits 1 when a target is missed, 2 when there is no sandbox to
measure or a command fails.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measured import lower_quartile, measuring, show

from amplifier_kit.guard.processes.output import Output
from amplifier_kit.guard.processes.running_command import CommandSpec, run
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.sandbox import Sandbox

TARGET_MS = 30.0
COMMAND = ("/bin/sh", "-c", "echo ran")


def make_project(folder: Path) -> None:
    """Make a folder as sessions have it: a repository, with what is guarded in it."""
    for name in (".git/hooks", ".git/modules/part/hooks", ".amplifier", ".claude", "src"):
        (folder / name).mkdir(parents=True)
    for name in (".git/HEAD", ".git/config", ".git/modules/part/HEAD", ".git/modules/part/config", "src/file.py"):
        (folder / name).write_text("", encoding="utf-8")


async def once(box: Sandbox, folder: Path) -> float:
    """Return how long one command takes, in milliseconds; exit when it does not do what it should."""
    start = time.perf_counter()
    setup = await asyncio.to_thread(box.prepare, str(folder))
    output = Output(1000)
    outcome = await run(setup.confine(CommandSpec(COMMAND, folder, setup.environment)), output, timeout=60)
    setup.release()
    taken = (time.perf_counter() - start) * 1000
    if outcome.returncode != 0 or output.shown().text != "ran\n":
        print(f"the command failed: {outcome}, {output.shown().text}", file=sys.stderr)
        sys.exit(2)
    return taken


async def measure(rounds: int, folder: Path) -> list[dict[str, Any]]:
    """Return the rows: what was measured, how long it took and its target."""
    box, free = Sandbox(SandboxConfig(), folder), Sandbox(SandboxConfig(mode="off"), folder)
    start = time.perf_counter()
    status = await box.ready()
    trial = (time.perf_counter() - start) * 1000
    if not status.is_active:
        print(box.summary(), file=sys.stderr)
        sys.exit(2)
    inside, outside = [], []
    for _ in range(rounds):
        outside.append(await once(free, folder))
        inside.append(await once(box, folder))
    added = lower_quartile(inside) - lower_quartile(outside)
    return [
        {
            "what": f"the sandbox adds to a command ({lower_quartile(outside):.1f} ms without it)",
            "ms": added,
            "target_ms": TARGET_MS,
            "met": added <= TARGET_MS,
        },
        {"what": "find out whether there is a sandbox, once per process", "ms": trial, "target_ms": None, "met": True},
    ]


def main() -> int:
    """Measure, print, and return the exit status."""
    options = measuring(__doc__, rounds=15).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        make_project(folder)
        rows = asyncio.run(measure(options.rounds, folder))
    return show(rows, as_json=options.json, digits=1)


if __name__ == "__main__":
    sys.exit(main())
