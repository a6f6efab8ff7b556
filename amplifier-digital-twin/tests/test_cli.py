"""The program: JSON on standard output, exit codes, and errors in one form."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.forward import ForwardConfig
from amplifier_digital_twin.profile.model import Port
from amplifier_digital_twin.service_process import end_processes, start_process
from amplifier_digital_twin.services.config import ProcessIdentity


def _run(home: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "amplifier_digital_twin", *arguments],
        env={**os.environ, "AMPLIFIER_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_an_empty_home_has_no_universes(tmp_path: Path) -> None:
    """`list` works before anything was ever launched, and makes nothing."""
    assert _run(tmp_path / "home", "list") == (0, {"universes": [], "faults": {}})
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["status", "nothing"], "universe_unknown"),
        (["exec", "nothing", "--", "true"], "universe_unknown"),
        (["destroy", "nothing"], "universe_unknown"),
        (["check", "no-such-profile"], "profile_unknown"),
        (["launch", "e2e-event-logging", "--var", "REPO"], "bad_argument"),
        (["launch", "hello.yaml"], "profile_unknown"),
        (["lunch"], "usage"),
        (["prune"], "usage"),
    ],
)
def test_errors_are_json_with_code_message_and_remedy(tmp_path: Path, arguments: list[str], code: str) -> None:
    """A mistake of the user is an object with a stable code, and exit code 2."""
    exit_code, answer = _run(tmp_path / "home", *arguments)
    assert (exit_code, answer["error"]["code"]) == (2, code)
    assert set(answer["error"]) == {"code", "message", "remedy"}


def test_a_profile_that_needs_a_secret_says_so_before_anything_is_made(tmp_path: Path) -> None:
    """A missing secret is named; nothing was created for it."""
    path = tmp_path / "p.yaml"
    path.write_text("dtu: 1\nname: x\nsecrets: [NO_SUCH_KEY]\n", encoding="utf-8")
    exit_code, answer = _run(tmp_path / "home", "launch", str(path))
    assert (exit_code, answer["error"]["code"]) == (2, "secret_missing")
    assert not (tmp_path / "home" / "digital-twin" / "universes").exists()


def test_doctor_says_what_works_and_why_not(tmp_path: Path) -> None:
    """Each engine is available, or has a reason; the exit code says whether any is."""
    exit_code, answer = _run(tmp_path / "home", "doctor")
    assert set(answer["backends"]) == {"podman", "docker", "incus"}
    for backend in answer["backends"].values():
        assert backend["available"] or backend["reason"]
    assert exit_code == (0 if answer["usable"] else 1)


def test_ports_of_loopback_lead_inside(tmp_path: Path) -> None:
    """Each connection becomes the streams of a command inside; the process ends with the universe."""
    universe = subprocess.Popen(["sleep", "60"])
    config = ForwardConfig(
        ports=(Port(container=80, label="web", path="/x"),),
        argv=("/bin/sh", "-c", "read line; echo heard $line"),
        until=ProcessIdentity.of(universe.pid),
    )
    path = tmp_path / "forward.json"
    path.write_text(config.model_dump_json(), encoding="utf-8")
    started: list[ProcessIdentity] = []
    opened = start_process("amplifier_digital_twin.forward", path, tmp_path / "log", started.append)()["ports"]
    try:
        assert opened[0]["url"] == f"http://127.0.0.1:{opened[0]['host']}/x"
        with socket.create_connection(("127.0.0.1", opened[0]["host"])) as connection:
            connection.sendall(b"this\n")
            assert connection.makefile().readline() == "heard this\n"
    finally:
        universe.kill()
        universe.wait()
    os.waitpid(started[0].pid, 0)
    assert end_processes(started) == []


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    """A port of the host that something else uses is reported with the remedy."""
    from amplifier_digital_twin.errors import TwinError

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = Port(container=80, host=taken.getsockname()[1])
        config = ForwardConfig(ports=(port,), argv=("true",), until=ProcessIdentity.of(os.getpid()))
        path = tmp_path / "forward.json"
        path.write_text(config.model_dump_json(), encoding="utf-8")
        wait = start_process("amplifier_digital_twin.forward", path, tmp_path / "log", lambda process: None)
        with pytest.raises(TwinError) as caught:
            wait()
    assert caught.value.code == "port_taken"
