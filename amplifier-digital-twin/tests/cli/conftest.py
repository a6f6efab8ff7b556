"""The program in processes of its own, with a home of its own and universes that only pretend."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

_HERE = Path(__file__).parent
_SIGNALS = (signal.SIGINT, signal.SIGHUP)
PROFILE = """\
dtu: 1
name: pretend
vars: {MODE: {default: ok}}
environment: {MODE: "${MODE}"}
secrets: [{env: PRETEND_KEY, optional: true}]
"""


class Ended(NamedTuple):
    """How a run of the program ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def record(self) -> dict[str, Any]:
        """Return the one JSON object on standard output."""
        value = json.loads(self.stdout)
        assert isinstance(value, dict)
        return value


class Program:
    """`amplifier-digital-twin` for one user with one home."""

    def __init__(self, home: Path, profile: Path) -> None:
        self.home = home
        self.profile = profile
        self.folder = home / "digital-twin"
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home.parent),
            "AMPLIFIER_HOME": str(home),
            "PYTHONPATH": str(_HERE / "pretend"),
            "AMPLIFIER_DIGITAL_TWIN_FACTORY": "pretend_universe:make_universe",
        }

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start the program."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.environ, **options}
        # Tests that a shell runs in the background ignore SIGINT, under nohup SIGHUP, and so would the program.
        options.setdefault("preexec_fn", lambda: [signal.signal(one, signal.SIG_DFL) for one in _SIGNALS] and None)
        return subprocess.Popen(
            [sys.executable, "-m", "amplifier_digital_twin", *arguments],
            stdin=subprocess.DEVNULL,
            text=True,
            cwd="/",
            **options,
        )

    def run(self, *arguments: str, **options: Any) -> Ended:
        """Run the program to its end."""
        process = self.start(*arguments, **options)
        stdout, stderr = process.communicate(timeout=90)
        return Ended(process.returncode, stdout, stderr)

    def launch(self, *more: str) -> str:
        """Launch a universe and return its identifier."""
        ended = self.run("launch", str(self.profile), *more)
        assert ended.code == 0, ended
        return str(ended.record["id"])

    @property
    def notes(self) -> str:
        """Return what the pretended universes noted."""
        path = self.folder / "notes.txt"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def state(self, identifier: str) -> dict[str, Any]:
        """Return the state on disk."""
        value: dict[str, Any] = json.loads((self.folder / "universes" / identifier / "state.json").read_bytes())
        return value

    def universes(self) -> list[str]:
        """Return everything in the folder of universes but the lock."""
        folder = self.folder / "universes"
        return sorted(path.name for path in folder.iterdir() if path.name != ".lock") if folder.exists() else []

    def kill_keeper(self, identifier: str) -> None:
        """End a keeper as a crash would."""
        pid = self.state(identifier)["holder"]["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_running(pid))


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something holds; it fails the test when that takes so long that it will never be."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and is not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Return `until`."""
    return until


@pytest.fixture
def runs() -> Callable[[int], bool]:
    """Return `is_running`."""
    return is_running


@pytest.fixture
def twin(tmp_path: Path) -> Iterator[Program]:
    """Return the program; keepers that a test leaves are ended."""
    profile = tmp_path / "pretend.yaml"
    profile.write_text(PROFILE, encoding="utf-8")
    program = Program(tmp_path / "home", profile)
    yield program
    for name in program.universes():
        try:
            os.kill(program.state(name)["holder"]["pid"], signal.SIGKILL)
        except (OSError, ValueError, KeyError):
            pass  # it has ended
