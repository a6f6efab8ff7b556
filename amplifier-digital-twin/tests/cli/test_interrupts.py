"""Whoever stops waiting ends what was asked for: Ctrl-C, SIGTERM, a reader that goes away, a program that is killed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Wait = Callable[[Callable[[], object]], None]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal_while_launching_destroys_the_universe(twin: Any, wait_until: Wait, number: int, code: int) -> None:
    """The program ends after the universe is gone, with the code of the signal."""
    process = twin.start("launch", str(twin.profile), "--var", "MODE=slow")
    wait_until(lambda: "slow" in twin.notes)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (code, "")
    assert "being destroyed" in stderr
    assert twin.universes() == []
    assert "destroyed" in twin.notes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_checking_destroys_the_universe(twin: Any, wait_until: Wait, number: int) -> None:
    """Ctrl-C in a check leaves nothing, not even with --keep: nobody knows what half a check is worth."""
    process = twin.start("check", str(twin.profile), "--var", "MODE=check-hangs", "--keep")
    wait_until(lambda: "checking" in twin.notes)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert twin.universes() == []
    assert "destroyed" in twin.notes


@pytest.mark.parametrize(
    ("command", "mode", "sign"), [("launch", "slow", "slow"), ("check", "check-hangs", "checking")]
)
def test_killed_program_takes_its_universe_with_it(
    twin: Any, wait_until: Wait, command: str, mode: str, sign: str
) -> None:
    """When the program that waits is killed, the keeper destroys what nobody waits for."""
    process = twin.start(command, str(twin.profile), "--var", f"MODE={mode}")
    wait_until(lambda: sign in twin.notes)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not twin.universes())
    assert "destroyed" in twin.notes


def test_interrupted_exec_ends_the_command(twin: Any, wait_until: Wait) -> None:
    """Ctrl-C ends the command inside, and the universe goes on."""
    identifier = twin.launch()
    process = twin.start("exec", identifier, "--stream", "--", "echo begun; sleep 600")
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    wait_until(lambda: "killed" in twin.notes)
    assert twin.run("exec", identifier, "--", "echo", "still").record["stdout"] == "still\n"


def test_client_killed_in_the_middle_of_a_stream_ends_the_command(twin: Any, wait_until: Wait) -> None:
    """A command whose listener was killed while output flows is ended, and the keeper goes on."""
    identifier = twin.launch()
    process = twin.start("exec", identifier, "--stream", "--", "yes")
    assert process.stdout.readline() == "y\n"
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: "killed" in twin.notes)
    assert twin.run("status", identifier).code == 0
    assert twin.run("logs", identifier, "--source", "keeper").record["entries"] == []


def test_reader_that_has_seen_enough_ends_the_command(twin: Any, wait_until: Wait) -> None:
    """`exec --stream … | head` ends quietly, and the command with it."""
    identifier = twin.launch()
    process = twin.start("exec", identifier, "--stream", "--", "yes")
    assert process.stdout.readline() == "y\n"
    process.stdout.close()
    assert process.wait(60) == 1
    assert process.stderr.read() == ""
    process.stderr.close()
    wait_until(lambda: "killed" in twin.notes)


def test_ignored_signals_stay_ignored(twin: Any, wait_until: Wait) -> None:
    """Under nohup, the end of a terminal does not end a launch."""
    process = twin.start(
        "launch",
        str(twin.profile),
        "--var",
        "MODE=slow",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None,
    )
    wait_until(lambda: "slow" in twin.notes)
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
