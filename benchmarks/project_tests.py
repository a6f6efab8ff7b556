"""Measure how long the project's own tests take."""

from __future__ import annotations

import subprocess
import sys
import time

from app_run import ProgramFailed
from children import environment
from document import ROOT
from harness import Row, Setting

#: The longest that `make test` and `.ci/run` may take, in minutes, on two quiet cores.
TEST_MINUTES = 8.0
CI_MINUTES = 12.0


def run(*command: str) -> None:
    """Run a program in the working tree; raise ProgramFailed with its last words when it fails."""
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout[-1000:] + done.stderr[-2000:]).strip()
        raise ProgramFailed(f"{' '.join(command)}: exit status {done.returncode}\n{said}")


def measure(setting: Setting) -> list[Row]:
    """Time `make test` and `.ci/run`, of which every test must pass; a size of 0 times the collection of one file."""
    trial = (sys.executable, "-m", "pytest", "-q", "--collect-only", "tests/test_benchmarks.py")
    whole = ((("make", "test"), "`make test`", TEST_MINUTES), ((".ci/run",), "`.ci/run`", CI_MINUTES))
    rows = []
    for command, what, most in whole[: setting.size] or ((trial, "collect one file", 1.0),):
        started = time.monotonic()
        run(*command)
        rows.append(Row(what, (time.monotonic() - started) / 60, "min", most=most))
    return rows
