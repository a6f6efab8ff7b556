"""All of this without rights: the same tests, run by a user who is nobody special."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_UID = 1001

#: By way of a shell: what setpriv itself executes is found with rights that the other user does not have.
_BECOME = ["setpriv", f"--reuid={_UID}", f"--regid={_UID}", "--clear-groups", "/bin/sh", "-c", 'exec "$0" "$@"']


def _python() -> str | None:
    """Find a Python of this version that the other user may execute."""
    for candidate in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        command = [*_BECOME, candidate, "-c", ""]
        if Path(candidate).exists() and subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return candidate
    return None


@pytest.mark.timeout(400)
def test_as_another_user() -> None:
    """Everything holds for a user without rights."""
    if os.geteuid() != 0:
        pytest.skip("this is the other user already")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not there to become another user")
    python = _python()
    if python is None:
        pytest.skip("no Python of this version is executable for other users")
    folder = Path(__file__).parent
    home = Path("/var/tmp") / f"sandbox-{os.getpid()}"
    home.mkdir(mode=0o700)
    os.chown(home, _UID, _UID)
    command = [*_BECOME, python, "-m", "pytest", str(folder)]
    command += ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={home}/pytest", f"--rootdir={folder}"]
    command += ["-c", str(folder.parents[2] / "pyproject.toml"), "-p", "no:randomly"]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": ":".join(path for path in sys.path if "site-packages" in path or "amplifier" in path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(home / "hypothesis"),
    }
    try:
        done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    # That user may not be allowed any namespaces: then everything was skipped, and this says nothing.
    if "there is no sandbox on this machine" in done.stdout:
        pytest.skip(f"the other user has no sandbox here: {done.stdout[-500:]}")
