"""Run a program that we chose ourselves to its end: no terminal, a deadline, bounded output, no leftover group.

For git, package installers and helpers of our own. Commands that a model or a user ordered run under a supervisor
instead (`start` and `run` of this package), which also ends processes that leave their group.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from amplifier_kit.guard.processes.launch import DEVNULL, PIPE, STDOUT, open_process
from amplifier_kit.guard.processes.programs import find_program

if TYPE_CHECKING:
    from amplifier_kit.guard.processes.launch import Process

__all__ = ["OUTPUT_LIMIT", "CommandResult", "CommandTimeoutError", "run_command", "run_program"]

#: Bytes of output that are kept, the last ones: the reason of a failure is at the end.
OUTPUT_LIMIT: Final = 256 * 1024
#: Seconds for a killed process to go; one that hangs in the system (a dead network share) is left to it.
_GRACE: Final = 5.0
#: Seconds between checks for the end of a program whose output another process keeps open.
_POLL: Final = 0.05


class CommandTimeoutError(Exception):
    """A program did not end in time and was killed, with everything it had started."""

    code: Final = "command_timeout"

    def __init__(self, program: str, seconds: float, output: str) -> None:
        super().__init__(f"{program} took longer than {seconds:g} s and was stopped")
        #: What it had written until then.
        self.output = output


class CommandResult(NamedTuple):
    """The exit code of a program and its output; without separate streams, `stdout` has both."""

    returncode: int
    stdout: bytes
    stderr: bytes = b""

    @property
    def output(self) -> str:
        """Return stdout as text."""
        return self.stdout.decode("utf-8", "replace")


async def run_command(
    argv: Sequence[str], *, timeout: float, env: Mapping[str, str], cwd: Path | None = None, because: str = ""
) -> CommandResult:
    """Run a program in a thread, stdout and stderr as one stream; any exit code is a result.

    When the caller is cancelled (KeyboardInterrupt under `asyncio.run` too), the process group is killed, and gone
    before this returns. Raises as `run_program`.
    """
    from amplifier_kit.guard.files.threads import in_thread

    def work(stop: threading.Event) -> CommandResult:
        return run_program(argv, timeout=timeout, environment=env, cwd=cwd, because=because, stop=stop)

    return await in_thread(work, grace=None)


def run_program(
    argv: Sequence[str],
    *,
    timeout: float,
    environment: Mapping[str, str],
    cwd: Path | None = None,
    because: str = "",
    data: bytes | None = None,
    is_split: bool = False,
    limit: int | None = None,
    stop: threading.Event | None = None,
) -> CommandResult:
    """Run a program and return its exit code and output.

    data: The bytes on its stdin; without any, it has none.
    is_split: Whether stderr is kept apart from stdout.
    limit: Bytes that are kept of each stream; OUTPUT_LIMIT by default.
    stop: Ends the program when set.

    A program named without its path is looked up on PATH, outside of the project. It runs in the root folder, where no
    settings can be planted; another folder needs a reason (`amplifier_kit.guard.processes.launch`). Raises OSError when
    it cannot be started, and CommandTimeoutError after `timeout` seconds or when stopped: then its process group has
    been killed.
    """
    process = open_process(
        [_absolute(argv[0], environment), *argv[1:]],
        environment=environment,
        cwd=os.sep if cwd is None else str(cwd),
        because=because,
        stdin=DEVNULL if data is None else PIPE,
        stdout=PIPE,
        stderr=PIPE if is_split else STDOUT,
    )
    streams = _Streams(process, data or b"", OUTPUT_LIMIT if limit is None else limit)
    try:
        streams.transfer(time.monotonic() + timeout, stop)
        if process.returncode is not None:
            return CommandResult(process.returncode, streams.kept(process.stdout), streams.kept(process.stderr))
    finally:
        if process.returncode is None:
            _kill_group(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    output = streams.kept(process.stdout).decode("utf-8", "replace")
    raise CommandTimeoutError(os.path.basename(argv[0]), timeout, output)


def _absolute(name: str, environment: Mapping[str, str]) -> str:
    if os.path.isabs(name):
        return name
    found = find_program(name, environment.get("PATH"))
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return found


class _Streams:
    """Feeds the input of a process and keeps the end of each output."""

    def __init__(self, process: Process, data: bytes, limit: int) -> None:
        self._process = process
        self._input = memoryview(data)
        self._limit = limit
        self._output = {s.fileno(): bytearray() for s in (process.stdout, process.stderr) if s is not None}

    def kept(self, stream: object) -> bytes:
        """Return the end of the output of a stream of the process; empty for None."""
        is_error = stream is not None and stream is self._process.stderr
        every = list(self._output.values())
        return b"" if stream is None else bytes(every[-1 if is_error else 0][-self._limit :])

    def transfer(self, end: float, stop: threading.Event | None) -> None:
        """Read and write until the process has ended, its time is up or it is stopped."""
        import selectors

        with selectors.DefaultSelector() as selector:
            for number in self._output:
                os.set_blocking(number, False)
                selector.register(number, selectors.EVENT_READ)
            stdin = self._process.stdin
            if stdin is not None:
                os.set_blocking(stdin.fileno(), False)
                selector.register(stdin.fileno(), selectors.EVENT_WRITE)
            while (left := end - time.monotonic()) > 0 and not (stop is not None and stop.is_set()):
                for key, _ in selector.select(min(left, _POLL)):
                    if key.fd in self._output:
                        if not self._read(key.fd):
                            selector.unregister(key.fd)
                    elif stdin is not None and not self._write(key.fd):
                        selector.unregister(key.fd)
                        stdin.close()
                # Its own end counts, not the end of its output: a process that it left behind may keep that open.
                if self._process.poll() is not None:
                    for number in self._output:
                        while self._read(number):
                            pass
                    return

    def _read(self, number: int) -> bool:
        """Keep what can be read now; return False when there is nothing."""
        try:
            data = os.read(number, 65536)
        except BlockingIOError:
            return False
        kept = self._output[number]
        kept += data
        if len(kept) > 2 * self._limit:
            del kept[: -self._limit]
        return bool(data)

    def _write(self, number: int) -> bool:
        """Write what the process takes now; return False at the end."""
        try:
            self._input = self._input[os.write(number, self._input) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self._input = memoryview(b"")  # it does not read the rest
        return bool(self._input)


def _kill_group(process: Process) -> None:
    """Kill a program that has not been waited for yet, so that its id is still its own, with all that it started."""
    import signal
    import subprocess

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # everything has ended; macOS reports a group of zombies as the latter
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        pass  # it hangs in the system
