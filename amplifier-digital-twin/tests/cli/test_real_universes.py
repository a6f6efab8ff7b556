"""The whole program without pretending: the embedded backend, which needs no engine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def real(twin: Any) -> Any:
    """Return the program with real universes."""
    del twin.environ["AMPLIFIER_DIGITAL_TWIN_FACTORY"]
    twin.profile.write_text("dtu: 1\nname: real\nbackend: embedded\nbase: {image: host}\n", encoding="utf-8")
    return twin


def test_real_universe_lives_and_dies(real: Any) -> None:
    """Commands run inside as the profile's user, and nothing is left in the end."""
    identifier = real.launch("--name", "real")
    assert real.run("exec", "real", "--", "id -un; ls /home").record["stdout"] == "user\nuser\n"
    assert real.run("exec", "real", "--stream", "--", "exit 7").code == 7
    assert real.run("destroy", "real").record == {"id": identifier, "destroyed": True}
    assert real.universes() == []


def test_crash_of_a_real_universe_leaves_nothing_after_prune(real: Any, wait_until: Any) -> None:
    """When the keeper is killed, all that ran inside ends with it, and prune removes folders and control groups."""
    identifier = real.launch()
    process = real.start("exec", identifier, "--stream", "--", "echo begun; exec sleep 987654")
    assert process.stdout.readline() == "begun\n"
    real.kill_keeper(identifier)
    process.communicate(timeout=60)
    wait_until(lambda: not _is_there(b"sleep\x00987654\x00"))
    assert real.run("prune", "--mine").record["removed"] == [identifier]
    assert real.universes() == []
    assert list(Path("/sys/fs/cgroup").glob(f"**/*{identifier}*")) == []


def _is_there(arguments: bytes) -> bool:
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and Path("/proc", name, "cmdline").read_bytes() == arguments:
                return True
        except OSError:
            pass  # it has ended
    return False
