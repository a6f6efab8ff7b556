"""Run another program so that it can do no harm: no questions, a deadline, bounded output, nothing left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from amplifier_foundation.errors import FoundationError
from amplifier_kit.guard.processes.launch import PIPE, STDOUT, open_process
from amplifier_kit.guard.processes.programs import find_program

if TYPE_CHECKING:
    from amplifier_kit.guard.processes.launch import Process

#: More than this much output is not kept; what came last is, because that is where the reason of a failure stands.
OUTPUT_LIMIT: Final = 256 * 1024
#: How long a killed process may take to go; one that hangs in the system (a dead network share) is left to it.
_GRACE: Final = 5.0
#: How often the end of a program is looked for whose output is kept open by another one.
_POLL: Final = 0.05


class CommandTimeoutError(FoundationError):
    """A program did not end in time and was killed, with everything it had started."""

    code = "command_timeout"

    def __init__(self, program: str, seconds: float, output: str) -> None:
        super().__init__(f"{program} took longer than {seconds:g} s and was stopped")
        #: What it had said until then.
        self.output = output


class CommandResult(NamedTuple):
    """How a program ended, and what it wrote to stdout and stderr (the last part of it, when it wrote a lot)."""

    returncode: int
    output: str


async def run_command(
    argv: Sequence[str], *, timeout: float, env: Mapping[str, str], cwd: Path | None = None, because: str = ""
) -> CommandResult:
    """Run a program to its end without blocking the event loop; whatever code it ends with is a result.

    It gets no stdin and no terminal, and a process group of its own. When `timeout` seconds have passed
    (CommandTimeoutError) or the caller is cancelled (KeyboardInterrupt under `asyncio.run` too), the whole group is
    killed, and gone before this returns. Raises OSError when the program cannot be started.

    A program that is named without its path is looked for on PATH, outside of the project. It runs in the root folder,
    where no settings lie that somebody planted; another folder needs a reason (`amplifier_kit.guard.processes.launch`).
    """
    from amplifier_foundation.sources.threads import in_thread

    command = _Command(argv, timeout, cwd, env, because)
    try:
        return await in_thread(command.run, stop=command.stop)
    finally:
        command.close()


class _Command:
    """One program, run by the thread that calls `run` and stopped from any other."""

    def __init__(
        self, argv: Sequence[str], timeout: float, cwd: Path | None, env: Mapping[str, str], because: str
    ) -> None:
        self._argv = list(argv)
        self._timeout = timeout
        self._cwd = os.sep if cwd is None else str(cwd)
        self._because = because
        self._env = dict(env)
        self._output = bytearray()
        #: What is written to one end wakes the thread that waits for output.
        self._wake, self._waker = os.pipe()

    def stop(self) -> None:
        os.write(self._waker, b"!")

    def close(self) -> None:
        os.close(self._wake)
        os.close(self._waker)

    def run(self) -> CommandResult:
        process = open_process(
            [self._program(), *self._argv[1:]],
            environment=self._env,
            cwd=self._cwd,
            because=self._because,
            stdout=PIPE,
            stderr=STDOUT,
        )
        try:
            self._collect(process)
            if process.returncode is not None:
                return CommandResult(process.returncode, self._text())
        finally:
            if process.returncode is None:
                _kill_group(process)
            if process.stdout is not None:
                process.stdout.close()
        raise CommandTimeoutError(os.path.basename(self._argv[0]), self._timeout, self._text())

    def _program(self) -> str:
        import errno

        name = self._argv[0]
        if os.path.isabs(name):
            return name
        found = find_program(name, self._env.get("PATH"))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return found

    def _collect(self, process: Process) -> None:
        """Read until the program has ended, its time is up or it is stopped."""
        import selectors

        assert process.stdout is not None
        source = process.stdout.fileno()
        os.set_blocking(source, False)
        end = time.monotonic() + self._timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            selector.register(source, selectors.EVENT_READ)
            while (left := end - time.monotonic()) > 0:
                ready = {key.fd for key, _ in selector.select(min(left, _POLL))}
                if self._wake in ready:
                    return
                if source in ready and not self._read(source):
                    selector.unregister(source)
                # A process it left behind may keep the output open: its own end counts, not that of the output.
                if process.poll() is not None:
                    while self._read(source):
                        pass
                    return

    def _read(self, source: int) -> bool:
        """Keep what there is to read; return False when there is nothing now."""
        try:
            data = os.read(source, 65536)
        except BlockingIOError:
            return False
        self._output += data
        if len(self._output) > 2 * OUTPUT_LIMIT:
            del self._output[:-OUTPUT_LIMIT]
        return bool(data)

    def _text(self) -> str:
        return self._output[-OUTPUT_LIMIT:].decode("utf-8", "replace")


def _kill_group(process: Process) -> None:
    """End a program that has not been waited for yet, so that its number is still its own, and all it started."""
    import signal
    import subprocess

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # everything has ended meanwhile; macOS says the latter of a group of zombies
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        pass
