"""Whoever stops waiting ends what was asked for: Ctrl-C, SIGTERM, a reader that goes away, a program that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

Wait = Callable[[Callable[[], object]], None]

#: The program, which gets a signal as soon as it has heard the keeper's answer, or when it is about to print it.
AT_THE_LAST_MOMENT = """
import os, signal, sys
from amplifier_digital_twin.cli import answers, launching
from amplifier_digital_twin.program import run

heard, printed = launching.ask, answers.answer

def ask(*given, **named):
    result = heard(*given, **named)
    os.kill(os.getpid(), signal.SIGTERM)
    return result

def answer(record):
    os.kill(os.getpid(), signal.SIGTERM)
    printed(record)

if sys.argv.pop(1) == "heard":
    launching.ask = ask
else:
    answers.answer = answer
run()
"""


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


@pytest.mark.parametrize("options", [[], ["--keep"]], ids=["short-way", "long-way"])
@pytest.mark.parametrize("moment", ["heard", "about-to-print"])
def test_signal_before_a_launched_universe_is_told_of_destroys_it(twin: Any, moment: str, options: list[str]) -> None:
    """A universe that is ready, but of which nobody has heard, is destroyed as one that is being made."""
    arguments = [moment, "launch", str(twin.profile), *options]
    command = [sys.executable, "-c", AT_THE_LAST_MOMENT, *arguments]
    ended = subprocess.run(command, env=twin.environ, cwd="/", capture_output=True, text=True, timeout=90, check=False)
    assert (ended.returncode, ended.stdout) == (143, "")
    assert "being destroyed" in ended.stderr
    assert twin.universes() == []
    assert "destroyed" in twin.notes


def test_second_signal_ends_the_program_and_not_the_destroying(twin: Any, wait_until: Wait) -> None:
    """Whoever does not want to wait for the end of a universe need not, and it comes all the same."""
    process = twin.start("launch", str(twin.profile), "--var", "MODE=slow-end")
    wait_until(lambda: "slow" in twin.notes)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "ending" in twin.notes)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    (identifier,) = twin.universes()
    assert f"goes on destroying {identifier}" in stderr
    (twin.folder / "may-end").touch()
    wait_until(lambda: not twin.universes())
    assert "destroyed" in twin.notes


def test_launch_whose_answer_cannot_be_written_leaves_nothing(twin: Any) -> None:
    """A full disk in the place of standard output is an error, and no universe stays that nobody knows of."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = twin.run("launch", str(twin.profile), stdout=full)
    assert ended.code == 2
    assert "No space left" in ended.stderr
    assert twin.universes() == []


def test_launch_whose_answer_nobody_reads_is_a_launch(twin: Any) -> None:
    """A reader that has gone is no wish to end the universe, which can be found by its name."""
    process = twin.start("launch", str(twin.profile), "--name", "unread")
    process.stdout.close()
    assert process.wait(60) == 1
    process.stderr.close()
    assert twin.run("status", "unread").record["phase"] == "ready"


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
