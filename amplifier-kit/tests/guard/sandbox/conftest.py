"""A project with a sandbox around it, a home folder with secrets, and a way to run something inside."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.sandbox import Sandbox

MakeBox = Callable[..., Sandbox]
Inside = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no sandbox be taken for broken because the machine stood still for some seconds."""
    monkeypatch.setattr("amplifier_kit.guard.sandbox.bubblewrap.TRIAL_SECONDS", 60.0)


@pytest.fixture
def naps(nap: str, naps: Callable[[], list[int]]) -> Callable[[], list[int]]:
    """Give `naps()`: the processes that sleep this test's sleep, without the sandboxes around them."""
    command = nap.encode().replace(b" ", b"\0")
    return lambda: [pid for pid in naps() if _command(pid) == command]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0")
    except OSError:
        return b""  # it has ended


@pytest.fixture
def bubblewrap() -> None:
    """Skip, with the reason, where there is no sandbox to test; the Makefile installs it where it can."""
    status = Sandbox(SandboxConfig(), Path(__file__).parent).status
    if not status.is_active:
        pytest.skip(f"there is no sandbox on this machine: {status.reason}")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder that is ours for this test."""
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    return made


@pytest.fixture
def project(home: Path) -> Path:
    """Return a project in the home folder."""
    made = home / "work" / "project"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def make_box(bubblewrap: None, project: Path) -> Iterator[MakeBox]:
    """Give `make_box(folder=project, hidden=(), **settings)`: a sandbox that is closed with the test."""
    made: list[Sandbox] = []

    def make(folder: Path = project, hidden: tuple[Path, ...] = (), **settings: Any) -> Sandbox:
        box = Sandbox(SandboxConfig.from_config(settings or None), folder, hidden=hidden)
        made.append(box)
        return box

    yield make
    for box in made:
        box.close()


@pytest.fixture
def inside(make_box: MakeBox) -> Inside:
    """Give `inside(command, box=None, cwd=None)`: what bash, or a list as it is, came to in the sandbox."""

    def run(command: str | list[str], *, box: Sandbox | None = None, cwd: Path | None = None) -> Any:
        argv = ["/bin/bash", "-c", command] if isinstance(command, str) else command
        wrapped, environment = (box or make_box()).wrap(argv, cwd=cwd)
        # What is tried here must never be tried outside.
        assert os.path.basename(wrapped[0]) == "bwrap"
        return subprocess.run(
            wrapped, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False
        )

    return run
