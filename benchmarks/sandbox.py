"""Measure what the sandbox adds to a command.

The same command is run with and without the sandbox, in turns, by the code that runs the commands of `bash`: a
project with a repository, the whole of what is looked at and mounted for every command, the supervisor, the end of all
processes. Finding out whether there is a sandbox, which is done once per process, is a separate row.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from harness import Row, Setting, lower_quartile

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
    """Return how long one command takes, in milliseconds; raise RuntimeError when it does not do what it should."""
    start = time.perf_counter()
    setup = await asyncio.to_thread(box.prepare, str(folder))
    output = Output(1000)
    outcome = await run(setup.confine(CommandSpec(COMMAND, folder, setup.environment)), output, timeout=60)
    setup.release()
    taken = (time.perf_counter() - start) * 1000
    if outcome.returncode != 0 or output.shown().text != "ran\n":
        raise RuntimeError(f"the command failed: {outcome}, {output.shown().text}")
    return taken


async def in_turn(rounds: int, folder: Path) -> list[Row]:
    """Return the rows of a project; raise RuntimeError where there is no sandbox to measure."""
    box, free = Sandbox(SandboxConfig(), folder), Sandbox(SandboxConfig(mode="off"), folder)
    start = time.perf_counter()
    status = await box.ready()
    trial = (time.perf_counter() - start) * 1000
    if not status.is_active:
        raise RuntimeError(box.summary())
    inside, outside = [], []
    for _ in range(rounds):
        outside.append(await once(free, folder))
        inside.append(await once(box, folder))
    alone = lower_quartile(outside)
    return [
        Row(
            f"the sandbox adds to a command ({alone:.1f} ms without it)", lower_quartile(inside) - alone, most=TARGET_MS
        ),
        Row("find out whether there is a sandbox, once per process", trial),
    ]


def measure(setting: Setting) -> list[Row]:
    """Return the rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        make_project(folder)
        return asyncio.run(in_turn(setting.rounds, folder))
