"""Say what is to be run, and hand it to a supervisor."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from amplifier_kit.guard.processes.launch import open_process
from amplifier_kit.guard.processes.leftovers import MARK

if TYPE_CHECKING:
    from amplifier_kit.guard.processes.launch import Process

#: Seconds that what outlives a command gets to end by itself: it may be about to write the last of its output.
LINGER: Final = 0.3
#: Seconds between SIGTERM and SIGKILL.
GRACE: Final = 0.5
#: Seconds until something that SIGKILL does not end is left to the system.
PATIENCE: Final = 3.0

_SUPERVISOR: Final = str(Path(__file__).with_name("supervisor.py"))


class StartError(Exception):
    """A command could not be started: `step` is what could not be done, `number` the system's reason."""

    code: Final = "command_not_started"

    def __init__(self, step: str, number: int | None) -> None:
        self.step = step
        self.number = number
        #: The reason in words.
        self.reason = os.strerror(number) if number is not None else "it ended before it had begun"
        super().__init__(f"{_STEPS.get(step, step)}: {self.reason}")


_STEPS: Final = {
    "folder": "the working directory cannot be entered",
    "program": "the program cannot be started",
    "prepare": "the process cannot be prepared",
    "supervisor": "the process that watches over the command cannot be started",
}


@dataclass(frozen=True)
class CommandSpec:
    """A command: the path of a program with its arguments, its folder and its whole environment."""

    argv: Sequence[str]
    folder: str | Path
    environment: Mapping[str, str]
    #: Whether processes that outlive the command go on, until it is stopped.
    is_kept: bool = False
    linger: float = LINGER
    grace: float = GRACE
    #: The command that runs the supervisor, where that is not to be run by the Python that runs us, or not here.
    launcher: Sequence[str] | None = None
    #: What all its processes carry in their environment.
    mark: str = field(default_factory=lambda: os.urandom(16).hex())

    def encoded(self) -> bytes:
        """Return folder and command as the supervisor reads them.

        Raises ValueError for what no system can run: a null byte, half a surrogate pair.
        """
        parts = [os.fsencode(part) for part in (self.folder, *self.argv)]
        if any(b"\0" in part for part in parts):
            raise ValueError("a command cannot contain a null byte")
        return b"".join(part + b"\0" for part in parts)


class Launched(NamedTuple):
    """A supervisor that has been started, and our ends of its pipes."""

    process: Process
    control: int | None
    report: int
    stdout: int
    stderr: int | None


def launch(order: CommandSpec, *, has_stderr: bool) -> Launched:
    """Start a supervisor with an order.

    Does not wait: neither the program nor the folder, which may be on a share that hangs, is touched by this process.
    Raises StartError, or ValueError for an order that cannot be written down.
    """
    if os.name != "posix":
        raise StartError("supervisor", 38)  # not implemented
    text = order.encoded()
    opened: list[int] = []
    theirs: list[int] = []
    try:
        control, ours = _pipe(opened, theirs, is_read=True)
        report = _pipe(opened, theirs)
        stdout = _pipe(opened, theirs)
        stderr = _pipe(opened, theirs) if has_stderr else None
        note = _written(text)
        theirs.append(note)
        times = [str(seconds) for seconds in (order.linger, order.grace, PATIENCE)]
        kept = "keep" if order.is_kept else "end"
        launcher = order.launcher or (sys.executable, "-I", "-S", _SUPERVISOR)
        process = open_process(
            [*launcher, str(note), str(report.theirs), kept, *times],
            stdin=control,
            stdout=stdout.theirs,
            stderr=stderr.theirs if stderr else stdout.theirs,
            pass_fds=(note, report.theirs),
            environment={**order.environment, MARK: order.mark},
            is_environment_final=True,  # it is the command's
        )
    except OSError as error:
        for number in opened:
            os.close(number)
        raise StartError("supervisor", error.errno) from error
    except ValueError:
        for number in opened:
            os.close(number)
        raise
    finally:
        for number in theirs:
            os.close(number)
    return Launched(process, ours, report.ours, stdout.ours, stderr.ours if stderr else None)


class _Pipe(NamedTuple):
    theirs: int
    ours: int


def _pipe(opened: list[int], theirs: list[int], *, is_read: bool = False) -> _Pipe:
    """Make a pipe that the other side reads from, or writes to; our end does not block."""
    read, write = os.pipe()
    pipe = _Pipe(read, write) if is_read else _Pipe(write, read)
    opened.append(pipe.ours)
    theirs.append(pipe.theirs)
    os.set_blocking(pipe.ours, False)
    return pipe


def _written(text: bytes) -> int:
    """Return a file without a name that holds the text, to be read from its beginning.

    Not an argument: a command that looks for processes by what they were started with finds only itself.
    """
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("order")
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            number = os.dup(file.fileno())
    try:
        left = memoryview(text)
        while left:
            left = left[os.write(number, left) :]
        os.lseek(number, 0, os.SEEK_SET)
    except OSError:
        os.close(number)
        raise
    return number
