"""Measure the digital twin: checks that start with less and less to do, a launch, a command inside.

Everything is done with the program itself, in an empty home for each round: no wheels, no downloads, nothing
provisioned; only the base image may exist already, because the engine keeps it. A round has one cold check. The median
decides whether a target is met. Raises TwinFailed when something cannot be done, or a check does not pass.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from children import environment
from document import ROOT, circumstances, table
from harness import Found, Row, Setting

PROFILE = "e2e-event-logging"
LAUNCHES = 5
EXECS_PER_LAUNCH = 2
#: The least that a universe can be: what its container costs, and nothing else.
SMALL = "dtu: 1\nname: small\nbase: {image: host}\nchecks: [{name: it-runs, run: 'true'}]\n"
COLD, WARM = f"`check {PROFILE}`, cold", f"`check {PROFILE}`, wheels and downloads cached"
PROVISIONED = f"`check {PROFILE}`, provisioned before"
LAUNCH, EXEC = "`launch` of an empty universe", "`exec ID -- true`"
#: The most seconds that the median of each may take.
TARGETS = {COLD: 30.0, WARM: 12.0, PROVISIONED: 4.0, LAUNCH: 0.8, EXEC: 0.5}


class TwinFailed(Exception):
    """The program did not do what it was asked for."""


def run(home: Path, *arguments: str) -> tuple[float, dict[str, Any]]:
    """Run the program once; return how long it took and what it answered. Raises TwinFailed with its last words."""
    started = time.perf_counter()
    done = subprocess.run(
        [str(Path(sys.executable).with_name("amplifier-digital-twin")), *arguments],
        cwd=ROOT,
        env={**environment(), "AMPLIFIER_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    seconds = time.perf_counter() - started
    if done.returncode or not done.stdout:
        raise TwinFailed(f"{' '.join(arguments)}: exit status {done.returncode}\n{done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    if "error" in answer:
        raise TwinFailed(f"{' '.join(arguments)}: {done.stderr[-3000:]}")
    return seconds, answer


def play(home: Path, taken: dict[str, list[float]]) -> dict[str, float]:
    """Add checks, launches and commands inside to what was taken; return how long the parts of the cold check took."""
    check = ("check", PROFILE, "--var", f"REPO={ROOT}")
    small = home / "small.yaml"
    small.write_text(SMALL, encoding="utf-8")
    run(home, "check", str(small))  # makes the base image where there is none
    seconds, verdict = run(home, *check)
    taken[COLD].append(seconds)
    # Wheels and downloads stay; what was installed from them does not.
    shutil.rmtree(home / "digital-twin" / "cache" / "provisioned", ignore_errors=True)
    taken[WARM].append(run(home, *check)[0])
    taken[PROVISIONED] += [run(home, *check)[0] for _ in range(2)]
    for _ in range(LAUNCHES):
        taken[LAUNCH].append(run(home, "launch", str(small), "--name", "bench")[0])
        taken[EXEC] += [run(home, "exec", "bench", "--", "true")[0] for _ in range(EXECS_PER_LAUNCH)]
        run(home, "destroy", "bench")
    return dict(verdict["timings"])


def measure(setting: Setting) -> Found:
    """Play the rounds; the section is that of docs/digital-twin.md, with the best time beside each median."""
    taken: dict[str, list[float]] = defaultdict(list)
    before, rounds = os.getloadavg()[0], []
    for _ in range(setting.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(play(Path(folder), taken))
    rows = [Row(what, median(taken[what]), "s", most=most) for what, most in TARGETS.items()]
    best = rounds[taken[COLD].index(min(taken[COLD]))]
    cells = [
        [row.what, str(len(taken[row.what])), *row.cells()[1:2], f"{min(taken[row.what]):.3g} s", *row.cells()[-2:]]
        for row in rows
    ]
    body = (
        f"## How fast it is\n\n{table(['What', 'Times', 'Median', 'Best', 'Target', 'Met'], cells)}\n\n"
        "Cold: no wheels, no downloads, nothing provisioned; the base image exists (mmdebstrap makes it once). "
        f"Parts of the best cold check: {', '.join(f'{name} {seconds:.2f} s' for name, seconds in best.items())}. "
        f"{circumstances()}; load average before and after: {before:.1f}, {os.getloadavg()[0]:.1f}."
    )
    return Found(rows, "speed", body, page="digital-twin.md")
