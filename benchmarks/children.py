"""Child processes that deliver JSON, on whichever kernel their interpreter has."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ATTEMPTS = 4


@dataclass
class Kernel:
    """One of the two kernels: the interpreter that has it, and how its children ended."""

    name: str
    python: Path
    started: int = 0
    #: delivered, and then ended with another status than 0
    died_at_exit: int = 0
    delivered_nothing: int = 0


@dataclass(frozen=True)
class Ended:
    """One child: its lines of output read as JSON, its exit status (None when it was stopped), its last words."""

    lines: list[Any]
    status: int | None
    error: str


class NoDelivery(RuntimeError):
    """A child delivered nothing, however often it was tried."""


def environment() -> dict[str, str]:
    """Return the children's environment: bytecode is written, and nothing of ours reaches the module search."""
    dropped = {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "AMPLIFIER_MODULES"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    # Without a fixed seed the order of a set, and so of what is printed from it, changes from run to run.
    return {**kept, "PYTHONHASHSEED": "0"}


def run(kernel: Kernel, script: str, *arguments: str, seconds: float) -> Ended:
    """Run one of our scripts once and read what it printed, also when it died or had to be stopped."""
    kernel.started += 1
    command = [str(kernel.python), str(HERE / script), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=seconds, check=False)
        status: int | None = done.returncode
        out, error = done.stdout, done.stderr
    except subprocess.TimeoutExpired as stopped:
        status = None
        out, error = _text(stopped.stdout), _text(stopped.stderr)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
    if not lines:
        kernel.delivered_nothing += 1
    elif status != 0:
        kernel.died_at_exit += 1
    return Ended(lines, status, error[-2000:])


def _text(captured: bytes | str | None) -> str:
    if captured is None:
        return ""
    return captured if isinstance(captured, str) else captured.decode("utf-8", "replace")


def deliver(kernel: Kernel, script: str, *arguments: str, seconds: float) -> Any:
    """Run one of our scripts until it delivers its one line; a death after delivery is counted, not held against it.

    Raises NoDelivery, with the child's last words, when every attempt delivered nothing.
    """
    for _ in range(ATTEMPTS):
        ended = run(kernel, script, *arguments, seconds=seconds)
        if ended.lines:
            return ended.lines[-1]
    raise NoDelivery(
        f"{script} {' '.join(arguments)} delivered nothing in {ATTEMPTS} attempts on {kernel.name} "
        f"(last exit status {ended.status}). Its last words:\n{ended.error}"
    )
