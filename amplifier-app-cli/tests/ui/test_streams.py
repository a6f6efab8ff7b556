"""Standard output, kept for the result, and how commands end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]


def _python(code: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", f"import os, sys\nfrom amplifier_app_cli.ui.streams import *\n{code}"],
        text=True,
        timeout=60,
        check=False,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more},
    )


def test_everything_is_put_back() -> None:
    """Inside, only the result's stream leads to standard output; afterwards it is as before, also after a fault."""
    result = _python(
        "print('before')\n"
        "try:\n"
        "    with guarded_stdout() as out:\n"
        "        print('lost'); os.write(1, b'lost'); sys.__stdout__.write('lost'); out.write('result\\n')\n"
        "        raise KeyError\n"
        "except KeyError: pass\n"
        "print('after'); sys.stdout.flush(); os.write(1, b'end\\n')\n"
    )
    assert result.stdout == "before\nresult\nafter\nend\n"
    assert result.stderr.count("lost") == 3


def test_nothing_comes_after_the_seal() -> None:
    """When modules were loaded, what is printed after the end of a command is no part of its result."""
    result = _python(
        "with guarded_stdout() as out: out.write('result\\n')\n"
        "print('printed'); seal_stdout()\n"
        "print('late'); os.write(1, b'late')\n"
    )
    assert (result.returncode, result.stdout) == (0, "result\nprinted\n")
    assert result.stderr.count("late") == 2


def test_streams_of_others_are_left_alone() -> None:
    """A standard output that somebody put in place, as a test does, is not sealed."""
    result = _python(
        "import io\n"
        "with guarded_stdout(): pass\n"
        "sys.stdout = io.StringIO(); seal_stdout()\n"
        "assert isinstance(sys.stdout, io.StringIO)\n"
        "os.write(1, b'still open')\n"
    )
    assert result.stdout == "still open", result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("--help",),
        ("--version",),
        ("session", "list", "--help"),
        ("version",),
        ("bundle", "list"),
        ("bundle", "list", "--format", "json"),
    ],
)
def test_a_full_disk_is_told_once(
    on_full_disk: Callable[..., subprocess.CompletedProcess[str]], command: tuple[str, ...]
) -> None:
    """A result that cannot be written ends a command with exit code 1, one line and no traceback."""
    result = on_full_disk(*command)
    assert result.returncode == 1, result.stderr
    assert result.stderr.count(os.strerror(28)) == 1
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr


@pytest.mark.parametrize("form", [(), ("--json",), ("--tree",), ("--tree", "--format", "json")])
def test_a_log_that_cannot_be_printed_is_not_called_unreadable(
    amplifier: Callable[..., subprocess.CompletedProcess[str]],
    on_full_disk: Callable[..., subprocess.CompletedProcess[str]],
    form: tuple[str, ...],
) -> None:
    """When it is the output that is full, `logs` says so and does not blame the log."""
    assert amplifier("run", "hello").returncode == 0
    result = on_full_disk("logs", *form)
    assert result.returncode == 1, result.stderr
    assert result.stderr == f"amplifier: the output could not be written: {os.strerror(28)}\n"


def test_interrupted_commands_have_their_exit_code(project: Path, environment: dict[str, str]) -> None:
    """Ctrl-C ends any command with exit code 130 and no traceback."""
    fifo = project / "prompt"
    os.mkfifo(fifo)
    holder = os.open(fifo, os.O_RDWR)  # so that the command waits for its prompt
    try:
        with open(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb") as stdin:
            os.set_blocking(stdin.fileno(), True)
            process = subprocess.Popen(
                [sys.executable, "-X", "importtime", "-m", "amplifier_app_cli", "run"],
                cwd=project,
                env=environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                # Whoever runs the tests in the background has made them ignore it.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        assert process.stderr is not None
        while "amplifier_app_cli.session_request" not in (line := process.stderr.readline()):
            assert line, "it never came so far"
        while not _is_asleep(process.pid):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        os.close(holder)
    assert (process.returncode, out) == (130, ""), err
    assert "Traceback" not in err
    assert "amplifier: stopped" in err


def _is_asleep(pid: int) -> bool:
    """Tell whether a process waits in reading a pipe."""
    where = Path(f"/proc/{pid}/syscall")
    try:
        return where.read_text().startswith("0 0x0 ")
    except OSError:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "S"
