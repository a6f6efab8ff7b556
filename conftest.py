"""Settings that every test run shares, and a user without rights to run tests as."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: a deadline is a timed assertion, and machines are noisy. CI repeats the same examples every time; a
# developer's machine explores new ones.
settings.register_profile("amplifier", deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True)
settings.load_profile("amplifier")

ROOT = Path(__file__).parent
UID = 1001
#: By way of a shell: what setpriv itself executes is found with rights that the other user does not have.
BECOME = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "/bin/sh", "-c", 'exec "$0" "$@"']


@pytest.fixture
def as_another_user() -> Callable[..., str]:
    """Give `as_another_user(*paths)`: run tests as a user without rights, assert that they pass, return what was said.

    Skips, with the reason, where one cannot become another user.
    """
    if os.geteuid() != 0:
        pytest.skip("this is the other user already")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not there to become another user")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if "site-packages" in path or _is_ours(path)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    python = _python(environment)
    if python is None:
        pytest.skip("no Python of this version, with these packages, can be used by other users")

    def run(*paths: Path) -> str:
        home = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="other-"))
        os.chown(home, UID, UID)
        command = [*BECOME, python, "-m", "pytest", *map(str, paths), "-q", "-rs", "-p", "no:cacheprovider"]
        command += ["-p", "no:xdist", "-p", "no:randomly", f"--basetemp={home}/pytest", f"--rootdir={paths[0].parent}"]
        command += ["-c", str(ROOT / "pyproject.toml")]
        its_own = {"HOME": str(home), "HYPOTHESIS_STORAGE_DIRECTORY": str(home / "hypothesis")}
        try:
            done = subprocess.run(
                command, env=environment | its_own, cwd=home, capture_output=True, text=True, check=False
            )
        finally:
            shutil.rmtree(home)
        assert done.returncode == 0, done.stdout + done.stderr
        assert " passed" in done.stdout
        # That user may not be allowed any namespaces: then everything was skipped, and this says nothing.
        if "there is no sandbox on this machine" in done.stdout:
            pytest.skip(f"the other user has no sandbox here: {done.stdout[-500:]}")
        return done.stdout

    return run


def _is_ours(path: str) -> bool:
    return os.path.isabs(path) and Path(path).is_relative_to(ROOT)


def _python(environment: dict[str, str]) -> str | None:
    """Find a Python of this version that the other user may execute, with all that is imported here."""
    for candidate in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        command = [*BECOME, candidate, "-c", "import amplifier_core, amplifier_kit, hypothesis, pydantic, pytest"]
        if Path(candidate).exists():
            tried = subprocess.run(command, env=environment, cwd="/", capture_output=True, check=False)
            if tried.returncode == 0:
                return candidate
    return None
