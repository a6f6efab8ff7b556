"""Run a program many times, two at a time, and count how it exits: one that emits an event, and `amplifier run`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from app_run import surroundings
from children import HERE, environment
from document import circumstances, table
from harness import Found, Row, Setting

from amplifier_kit.guard.processes.running_command import signal_name

SECONDS = 60
HUNG = "stopped after 60 s"
#: The section of the published kernel.
PEER = "exits-peer"
ANSWER = "Hello. I am the scripted model of the default bundle"
ONE_EMIT = """
The program (`benchmarks/one_emit.py`) creates a session, emits one event to one handler, cleans up and ends.
`make bench-exits` counts again; `python benchmarks/run.py exits-peer --write` counts the published kernel too.
"""
RUN = """
Each run is a separate process with the default bundle, two at a time in one home, and must print the
answer and nothing else. `make bench-exits` counts again.
"""


def in_words(status: int) -> str:
    """Return `0`, `1`, ..., or `-11 (SIGSEGV)` for a process that a signal ended."""
    return str(status) if status >= 0 else f"{status} ({signal_name(-status)})"


def ended(command: list[str], **more: Any) -> tuple[str, str]:
    """Run a program; return its exit status in words and what it printed, all streams. Last words go to stderr."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, **more)
    except subprocess.TimeoutExpired:
        return HUNG, ""
    said = done.stdout + done.stderr
    if done.returncode:
        print(said[-1000:].rstrip(), file=sys.stderr)
    return in_words(done.returncode), said


def exit_of_emit(python: Path) -> str:
    """Run the one-emit program on the kernel of an interpreter and return its exit status in words."""
    return ended([str(python), str(HERE / "one_emit.py")], env=environment())[0]


def exit_of_run(folder: Path) -> str:
    """Run `amplifier run` and return its exit status in words, or that its answer was not the one."""
    command = [sys.executable, "-m", "amplifier_app_cli", "run", "--quiet", "hello"]
    status, said = ended(command, cwd=folder, env=surroundings(folder))
    if status == "0" and (not said.startswith(ANSWER) or said.count("\n") != 1):
        print(said[-1000:], file=sys.stderr)
        return "0 with other output"
    return status


def measure(setting: Setting) -> Found:
    """Count the exits of the one-emit program on our kernel."""
    title = "Exit status of a one-emit program, our kernel"
    return count(setting, partial(exit_of_emit, Path(sys.executable)), "exits", title, ONE_EMIT)


def measure_peer(setting: Setting) -> Found:
    """Count the exits of the one-emit program on the published kernel, which has no target."""
    if setting.peer is None:
        raise ValueError("this counts the exits of the published kernel: give its interpreter with --peer")
    title = "Exit status of a one-emit program, the published kernel 2.0.2"
    return count(setting, partial(exit_of_emit, setting.peer.absolute()), PEER, title, ONE_EMIT)


def measure_runs(setting: Setting) -> Found:
    """Count the exits of `amplifier run`."""
    with tempfile.TemporaryDirectory() as name:
        return count(setting, partial(exit_of_run, Path(name)), "run-exits", "Exit status of `amplifier run`", RUN)


def count(setting: Setting, exit_of: Callable[[], str], section: str, title: str, words: str) -> Found:
    """Count the exits of `size` runs; every one of ours has to be 0."""
    with ThreadPoolExecutor(2) as pool:
        counted = Counter(pool.map(lambda _: exit_of(), range(setting.size)))
    others = ", ".join(f"{status}: {number}" for status, number in counted.most_common() if status != "0")
    cells = [[str(setting.size), str(counted["0"]), others or "none"]]
    body = f"## {title}\n\n{circumstances()}\n\n{table(['Runs', 'Exit 0', 'Other exit statuses'], cells)}\n{words}"
    least = None if section == PEER else setting.size
    row = Row(f"{title}: 0", counted["0"], f"of {setting.size:,}", least=least)
    return Found([row], section, body, [others] if others and least else [])
