"""Run an untrusted command under a supervisor: read its output, stop it with all its descendants, know how it ended.

Each command gets a supervisor process (`supervisor.py`), which may itself run in the sandbox. If the supervisor is
killed, the remaining processes are found by a command id in their environment and killed from here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeVar

from amplifier_kit.guard.processes.launch import PIPE, STDOUT, memory_file, open_process
from amplifier_kit.guard.processes.output import Output
from amplifier_kit.guard.processes.supervisor import descendants
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_kit.guard.processes.launch import Process

_T = TypeVar("_T")

#: Seconds for processes that outlive a command to exit on their own: they may be about to write its last output.
LINGER: Final = 0.3
#: Seconds between SIGTERM and SIGKILL.
GRACE: Final = 0.5
#: Seconds to wait for processes to disappear after SIGKILL.
KILL_WAIT: Final = 3.0
#: Seconds beyond these times after which the supervisor counts as stuck.
_SUPERVISOR_SLACK: Final = 2.0
_POLL_INTERVAL: Final = 0.002
_SWEEP_INTERVAL: Final = 0.02

_CHUNK: Final = 64 * 1024
#: Seconds without reading after each chunk of a flood, so that it slows down neither the event loop nor the machine.
_FLOOD_PAUSE: Final = 0.002
#: Chunks that are still read from a pipe after all writers should have exited.
_MAX_FINAL_READS: Final = 64

_SUPERVISOR: Final = str(Path(__file__).with_name("supervisor.py"))
#: The environment variable with the command id, which few programs withhold from their children.
COMMAND_ID: Final = "AMPLIFIER_COMMAND_ID"

_START_STEPS: Final = {
    "folder": "the working directory cannot be entered",
    "program": "the program cannot be started",
    "prepare": "the process cannot be prepared",
    "supervisor": "the supervisor of the command cannot be started",
    "sandbox": "the sandbox could not be set up",
}


def signal_name(number: int) -> str:
    """Return the name of a signal, such as `SIGKILL`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class StartError(Exception):
    """A command was not started: `step` is the key of `_START_STEPS` that failed, `number` the errno if any."""

    def __init__(self, step: str, number: int | None = None, reason: str = "") -> None:
        self.step = step
        self.number = number
        self.reason = reason or (os.strerror(number) if number is not None else "it exited at once")
        super().__init__(f"{_START_STEPS.get(step, step)}: {self.reason}")

    @property
    def code(self) -> str:
        return "sandbox_failed" if self.step == "sandbox" else "command_not_started"


class CommandSpec(FrozenStruct):
    """A command to run: the absolute path of a program with its arguments, its folder and its whole environment."""

    argv: Sequence[str]
    folder: str | Path
    environment: Mapping[str, str]
    #: Leave processes that outlive the command running until `stop`.
    keeps_background: bool = False
    linger: float = LINGER
    grace: float = GRACE
    #: The command line that runs the supervisor in the sandbox (`SandboxSetup.confine`); None runs it outside.
    launcher: Sequence[str] | None = None
    command_id: str = field(default_factory=lambda: os.urandom(16).hex())

    def encode(self) -> bytes:
        """Return folder and argv for the supervisor; raises ValueError for a null byte or a lone surrogate."""
        parts = [os.fsencode(part) for part in (self.folder, *self.argv)]
        if any(b"\0" in part for part in parts):
            raise ValueError("a command cannot contain a null byte")
        return b"".join(part + b"\0" for part in parts)


class Outcome(NamedTuple):
    """How a command ended."""

    #: Negative: the number of the signal. None: unknown, as the supervisor was killed.
    returncode: int | None
    is_timed_out: bool = False
    #: How many processes outlived the command and were stopped.
    leftovers: int = 0
    #: The processes that could not be stopped.
    alive: tuple[int, ...] = ()


class RunningCommand:
    """One command, from its start until its last descendant has exited."""

    def __init__(self, spec: CommandSpec, stdout: Output, stderr: Output | None) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._spec = spec
        self._process, self._reports = _start_supervisor(spec, has_stderr=stderr is not None)
        self._started: asyncio.Future[int] = loop.create_future()
        #: Done when the supervisor has closed the report pipe.
        self._reported: asyncio.Future[None] = loop.create_future()
        self._returncode: int | None = None
        self._leftovers = 0
        self._alive: tuple[int, ...] = ()
        self._is_done = False
        self._needs_sweep = False
        self._partial_report = b""
        self._finishing: asyncio.Task[None] | None = None
        self._error_output = stderr or stdout
        self._streams: dict[IO[bytes], Output] = {}
        for stream, output in ((self._process.stdout, stdout), (self._process.stderr, stderr)):
            if stream is not None and output is not None:
                os.set_blocking(stream.fileno(), False)
                self._streams[stream] = output
                self._watch(stream)
        loop.add_reader(self._reports, self._on_report)

    async def started(self) -> int:
        """Return the process id of the command; raises StartError."""
        return await asyncio.shield(self._started)

    def check_start(self) -> None:
        """Raise StartError when it is known that the command was not started, and why."""
        error = self._started.exception() if self._started.done() else None
        if isinstance(error, StartError) and error.number is not None:
            raise error
        # A supervisor that its own command kills before the first report ends otherwise: by a signal.
        code = self._process.returncode
        if self._spec.launcher is not None and error is not None and code is not None and 0 < code < 128:
            lines = self._error_output.shown().text.strip().splitlines()
            raise StartError("sandbox", reason=lines[0][:300] if lines else f"exit code {code}")

    @property
    def is_over(self) -> bool:
        """Whether the command and all its descendants have exited and the output is complete."""
        return self._finishing is not None and self._finishing.done()

    @property
    def has_ended(self) -> bool:
        """Whether the command itself has exited; processes that it started may still run."""
        return self._returncode is not None or self._reported.done()

    @property
    def outcome(self) -> Outcome:
        """Return the outcome as far as it is known."""
        return Outcome(self._returncode, False, self._leftovers, self._alive)

    async def wait(self) -> Outcome:
        """Wait until the command and all its descendants have exited."""
        await asyncio.wait([self._reported])
        return await self._finish()

    async def stop(self) -> Outcome:
        """Stop the command and all its descendants, and wait until they have exited or are known to be unkillable."""
        self._close_control()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)  # the command may have stopped its supervisor
        await asyncio.wait([self._reported], timeout=self._spec.grace + KILL_WAIT + _SUPERVISOR_SLACK)
        return await self._finish()

    def _close_control(self) -> None:
        """Close the control pipe, on which the supervisor stops everything."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _on_report(self) -> None:
        try:
            data = os.read(self._reports, 4096)
        except BlockingIOError:
            return
        if data:
            *lines, self._partial_report = (self._partial_report + data).split(b"\n")
            for line in lines:
                self._handle_report(*line.decode().split())
            return
        self._loop.remove_reader(self._reports)
        if not self._started.done():
            self._started.set_exception(StartError("supervisor"))
        self._started.exception()  # retrieved here: callers that only wait do not
        if not self._reported.done():
            self._reported.set_result(None)

    def _handle_report(self, kind: str, *values: str) -> None:
        is_sandboxed = self._spec.launcher is not None  # with its own process ids, which mean nothing here
        if kind == "started" and not self._started.done():
            self._started.set_result(self._process.pid if is_sandboxed else int(values[0]))
        elif kind == "failed" and not self._started.done():
            self._started.set_exception(StartError(values[0], int(values[1])))
        elif kind == "ended":
            self._returncode = int(values[0])
        elif kind == "leftovers":
            self._leftovers = int(values[0])
        elif kind == "alive" and not is_sandboxed:
            self._alive = tuple(map(int, values))
        elif kind in ("alive", "no-subreaper"):
            self._needs_sweep = True
        elif kind == "done":
            self._is_done = True

    def _on_output(self, stream: IO[bytes]) -> None:
        output = self._streams[stream]
        if self._read(stream) and output.is_flood:
            self._loop.remove_reader(stream)
            self._loop.call_later(_FLOOD_PAUSE, self._watch, stream)

    def _watch(self, stream: IO[bytes]) -> None:
        if stream in self._streams:
            self._loop.add_reader(stream, self._on_output, stream)

    def _read(self, stream: IO[bytes]) -> bool:
        """Pass one chunk to the output; return False if nothing could be read."""
        try:
            data = os.read(stream.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._streams[stream].feed(data)
            return True
        self._close_stream(stream)
        return False

    def _close_stream(self, stream: IO[bytes]) -> None:
        self._loop.remove_reader(stream)
        stream.close()
        self._streams.pop(stream).close()

    async def _finish(self) -> Outcome:
        """Clean up once, even if callers that wait for it are cancelled, and return the outcome."""
        if self._finishing is None:
            self._finishing = self._loop.create_task(self._clean_up())
        await asyncio.shield(self._finishing)
        return self.outcome

    async def _clean_up(self) -> None:
        self._close_control()
        if self._started.done() and self._started.exception() is not None:
            # A launcher that failed is about to exit: a sweep now would kill it and lose its exit code.
            await self._supervisor_exits()
        if not self._is_done or self._needs_sweep:
            supervisor = self._process.pid if self._process.poll() is None else None
            left = await asyncio.to_thread(_sweep, self._spec.command_id, supervisor, 1.0)
            self._alive = tuple(sorted({*self._alive, *left}))
        self._loop.remove_reader(self._reports)
        os.close(self._reports)
        for stream in list(self._streams):
            for _ in range(_MAX_FINAL_READS):
                if not self._read(stream):
                    break
            if stream in self._streams:
                self._close_stream(stream)
        if not await self._supervisor_exits():
            self._process.kill()
            await self._supervisor_exits()  # waited for, so that it does not stay a zombie

    async def _supervisor_exits(self) -> bool:
        for _ in range(int(_SUPERVISOR_SLACK / _POLL_INTERVAL)):
            if self._process.poll() is not None:
                return True
            await asyncio.sleep(_POLL_INTERVAL)
        return False


def start(spec: CommandSpec, stdout: Output, stderr: Output | None = None) -> RunningCommand:
    """Start a command in the running event loop; without `stderr`, its errors go to `stdout`.

    Returns at once, without touching program or folder, which may be on a network share that hangs. Raises StartError
    when the supervisor cannot be started, and ValueError as `CommandSpec.encode`. The caller must `wait` or `stop`.
    """
    return RunningCommand(spec, stdout, stderr)


async def run(spec: CommandSpec, stdout: Output, stderr: Output | None = None, *, timeout: float | None) -> Outcome:
    """Run a command until it exits or `timeout` seconds have passed, and leave no process behind.

    Raises StartError when it, or its sandbox, cannot be started. A caller that is cancelled gets its CancelledError
    when all processes have exited.
    """
    running = start(spec, stdout, stderr)
    waiting = asyncio.ensure_future(running.wait())
    try:
        done, _ = await asyncio.wait([waiting], timeout=timeout)
        if done:
            running.check_start()
            return waiting.result()
        return (await to_end(running.stop()))._replace(is_timed_out=True)
    finally:
        waiting.cancel()
        if not running.is_over:
            await to_end(running.stop())


async def to_end(work: Awaitable[_T]) -> _T:
    """Await something to its end even if the caller is cancelled; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not log it
    raise cancelled


def _start_supervisor(spec: CommandSpec, *, has_stderr: bool) -> tuple[Process, int]:
    """Start the supervisor of a command; return it with the descriptor of its report pipe."""
    if os.name != "posix":
        raise StartError("supervisor", 38)  # ENOSYS
    command = spec.encode()
    opened: list[int] = []
    try:
        reports, writer = os.pipe()
        opened += (reports, writer)
        os.set_blocking(reports, False)
        opened.append(file := memory_file(command))  # not argv: `pkill -f` must not find the supervisor
        times = [str(seconds) for seconds in (spec.linger, spec.grace, KILL_WAIT)]
        launcher = spec.launcher or (sys.executable, "-I", "-S", _SUPERVISOR)
        process = open_process(
            [*launcher, str(file), str(writer), "keep" if spec.keeps_background else "end", *times],
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE if has_stderr else STDOUT,
            pass_fds=(file, writer),
            environment={**spec.environment, COMMAND_ID: spec.command_id},
            is_environment_final=True,  # it is the command's
        )
    except OSError as error:
        raise StartError("supervisor", error.errno) from error
    else:
        opened.remove(reports)
    finally:
        for number in opened:
            os.close(number)
    return process, reports


def processes_with_id(command_id: str) -> list[int]:
    """Return the processes that have a command id in their environment; empty on systems without `/proc`."""
    wanted = f"{COMMAND_ID}={command_id}".encode()
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            continue  # it has exited, or belongs to another user
    return found


def _sweep(command_id: str, supervisor: int | None, seconds: float) -> list[int]:
    """Kill the processes of a command, its supervisor last; return those that are left after some seconds.

    `supervisor` is None when it has been waited for: its process id may be reused.
    """
    deadline = time.monotonic() + seconds
    while True:
        below = descendants(supervisor) if supervisor is not None else []
        found = sorted({*processes_with_id(command_id), *below} - {supervisor})
        if not found or time.monotonic() >= deadline:
            break
        for pid in found:
            with contextlib.suppress(OSError):  # it has exited, or belongs to another user: then it is found again
                os.kill(pid, signal.SIGKILL)
        time.sleep(_SWEEP_INTERVAL)
    if supervisor is not None:
        with contextlib.suppress(OSError):
            os.kill(supervisor, signal.SIGKILL)
    return found
