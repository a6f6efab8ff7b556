"""Settings that every test run shares, a user without rights to run programs as, and folders without room."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# 25 examples of every property in the lane that every change runs, hundreds in the system lane. No deadline: it is a
# timed assertion, and machines are noisy. CI repeats the same examples every time, so that a change fails for its own
# faults; a developer's machine and the system lane explore new ones.
settings.register_profile(
    "amplifier", max_examples=25, deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True
)
settings.register_profile("deep", max_examples=300, deadline=None, print_blob=True)
settings.load_profile("amplifier")

# What the shell that starts the tests has set is not what they are about: new files get the usual modes, and terminals
# are as wide as a test makes them. Tests of other modes and widths say so.
os.umask(0o022)
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

ROOT = Path(__file__).parent
#: A disk of 256 KiB that only one process sees, or files of at most 100,000 bytes, for a program and its folder.
SMALL_DISK = """
import os, pathlib, subprocess, sys
folder = pathlib.Path(sys.argv[2])
files = {path.name: path.read_bytes() for path in folder.iterdir()}
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], check=True)
for name, content in files.items():
    (folder / name).write_bytes(content)
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""
SIZE_LIMIT = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""
APART = ["unshare", "--map-root-user", "--mount"]


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> None:
    """Let what one test made known as a secret be masked in no other one."""
    process = sys.modules.get("amplifier_kit.redaction.process")
    if process is not None:
        process.secret_sources.clear()
        process._known.clear()
        process._key_names.clear()
        process._redactor = None


@pytest.fixture(params=["disk_full", "too_large"])
def without_room(request: pytest.FixtureRequest) -> Callable[[str, Path, Any], tuple[str, Any]]:
    """Give `without_room(program, folder, given)`: run a Python program whose folder has no room for 300,000 bytes.

    The program gets the folder, which has the files of `folder`, as its argument, and `given` as JSON on standard
    input. Returned are the code of the error that a tool has for this want of room, and the JSON that was printed.
    Skips, with the reason, where no disk can be mounted.
    """
    code: str = request.param

    def run(program: str, folder: Path, given: Any) -> tuple[str, Any]:
        command = [sys.executable, "-c", SIZE_LIMIT, program, str(folder)]
        if code == "disk_full":
            can_mount = [*APART, "mount", "-t", "tmpfs", "none", str(folder)]
            if shutil.which("unshare") is None or subprocess.run(can_mount, capture_output=True).returncode:
                pytest.skip("no disk can be mounted here")
            command = [*APART, sys.executable, "-c", SMALL_DISK, program, str(folder)]
        done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return code, json.loads(done.stdout)

    return run


@pytest.fixture
def as_another_user() -> Callable[..., str]:
    """Give `as_another_user(program)`: run a Python program as a user without rights and return what it prints.

    Skips, with the reason, where one cannot become another user.
    """

    def run(program: str) -> str:
        command = [sys.executable, str(ROOT / ".ci" / "as-another-user"), "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 77:
            pytest.skip(done.stderr.strip())
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
