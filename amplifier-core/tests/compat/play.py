"""Play the scenarios in processes of an interpreter that has one of the two kernels.

    python -m compat.play [ID ...]

run in the folder above this one, plays the scenarios named, or all that are safe to play beside others, and prints a
line of JSON for each as it ends. It needs nothing but `amplifier_core`, so it runs unchanged beside either kernel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .scenarios.base import load_scenarios, play

SECONDS_FOR_ALL = 300.0
SECONDS_FOR_ONE = 20.0


def play_all(python: Path) -> dict[str, Any]:
    """Play every scenario on the kernel of an interpreter; hanging and dying are observations too."""
    identities = list(load_scenarios())
    observed, _ = _run(python, seconds=SECONDS_FOR_ALL)
    for identity in identities:
        # It wants its own process, or the one of all was lost before its turn.
        if identity not in observed:
            alone, status = _run(python, identity, seconds=SECONDS_FOR_ONE)
            # With which status a process dies may change from run to run: it is not compared.
            ended = {"hung": True} if status is None else {"process_died": True}
            observed[identity] = alone.get(identity, ended)
    return {identity: observed[identity] for identity in identities}


def _run(python: Path, *identities: str, seconds: float) -> tuple[dict[str, Any], int | None]:
    """Return what a child process observed until it ended, and its exit status: None when it had to be stopped."""
    dropped = {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "AMPLIFIER_MODULES"}
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    command = [str(python), "-m", "compat.play", *identities]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as lines:
        child = subprocess.Popen(
            command, cwd=Path(__file__).parents[1], env=environment, stdout=lines, stderr=subprocess.DEVNULL
        )
        try:
            status: int | None = child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            status = None
        lines.seek(0)
        # A line that a dying process did not finish was not observed.
        return dict(json.loads(line) for line in lines if line.endswith("\n")), status


def main() -> None:
    """Play what the command line names in this process."""
    # What a kernel prints must not be taken for an observation.
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    scenarios = load_scenarios()
    named = sys.argv[1:] or [item.id for item in scenarios.values() if not item.alone]
    with tempfile.TemporaryDirectory() as folder:
        for number, identity in enumerate(named):
            observed = play(scenarios[identity], Path(folder, str(number)))
            lines.write(json.dumps([identity, observed]) + "\n")
            lines.flush()


if __name__ == "__main__":
    main()
