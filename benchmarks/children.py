"""Child processes that deliver JSON, on whichever kernel their interpreter has."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ATTEMPTS = 4


class NoDelivery(RuntimeError):
    """A child delivered nothing, however often it was tried."""


def environment() -> dict[str, str]:
    """Return the children's environment: bytecode is written, and nothing of ours reaches the module search."""
    dropped = {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "AMPLIFIER_MODULES"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    # Without a fixed seed the order of a set, and so of what is printed from it, changes from run to run.
    return {**kept, "PYTHONHASHSEED": "0"}


def deliver(python: Path, script: str, *arguments: str, seconds: float) -> Any:
    """Run one of our scripts until it delivers its one line of JSON, also when it dies or hangs afterwards.

    Raises NoDelivery, with the child's last words, when every attempt delivered nothing.
    """
    command = [str(python), str(HERE / script), *arguments]
    for _ in range(ATTEMPTS):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        ) as child:
            try:
                out, error = child.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                child.kill()
                out, error = child.communicate()
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
        if lines:
            return lines[-1]
    raise NoDelivery(
        f"{script} {' '.join(arguments)} delivered nothing in {ATTEMPTS} attempts with {python} "
        f"(last exit status {child.returncode}). Its last words:\n{error[-2000:]}"
    )
