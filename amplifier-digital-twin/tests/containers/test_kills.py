"""The program is killed at random moments: after `prune --mine` nothing of it is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_digital_twin.engines.containers import Podman
from amplifier_digital_twin.engines.engine import LABEL_HOME
from amplifier_testing.universe import twin_program

KILLS = 50
PROFILE = """
provision: {commands: [git clone -q https://github.com/owner/tree]}
mocks: [{name: web, run: python3 -m http.server --bind 127.0.0.1 8410, port: 8410}]
access: {ports: [{container: 8410}]}
checks: [{name: a, run: cat tree/file}]
artifacts: [~/tree]
"""


def _left(home: Path) -> list[str]:
    """Return the processes of this machine whose command line names a home, this one's own children included."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(home) in words:
            found.append(words)
    return found


@pytest.mark.timeout(3600)
def test_nothing_is_left_after_kills(profile: Callable[..., Path], amplifier_home: Path, universes_work: None) -> None:
    """SIGKILL at 50 random moments of launch and check: no container, process, mount, socket or file stays."""
    path = profile(PROFILE)
    engine = Podman()
    begin = time.monotonic()
    twin_program("check", str(path))
    whole = (time.monotonic() - begin) * 1.2
    chance = random.Random(20261119)
    for number in range(KILLS):
        (path.parent / "tree" / "file").write_text(f"{number}\n", encoding="utf-8")
        verb = "check" if number % 2 else "launch"
        process = subprocess.Popen(
            [sys.executable, "-m", "amplifier_digital_twin", verb, str(path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(chance.uniform(0, whole))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        # A launch that was done before the kill is a universe that lives on: it is destroyed like any other.
        for each in twin_program("list")["universes"]:
            if each["phase"] == "ready":
                twin_program("destroy", each["id"])
        assert twin_program("prune", "--mine")["failed"] == {}
        assert engine.find({LABEL_HOME: str(amplifier_home / "digital-twin")}) == []
        assert twin_program("list") == {"universes": [], "faults": {}}
    deadline = time.monotonic() + 30
    while _left(amplifier_home) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert _left(amplifier_home) == []
    universes = amplifier_home / "digital-twin" / "universes"
    assert [entry.name for entry in universes.iterdir() if entry.name != ".lock"] == []
    assert str(amplifier_home) not in Path("/proc/mounts").read_text(encoding="utf-8")
