"""Start a process: the only place in the product that creates one. A test fails when a second is added.

Every start names an absolute path (`find_program` finds it), the whole environment and the folder, so that nothing is
inherited by accident. `run_program` runs a trusted program to its end: git, package installers, our own helpers.
Untrusted commands run under a supervisor (`running_command`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Required, TypedDict, TypeVar, Unpack

from amplifier_kit.guard.processes.programs import Folders, find_program, host_environment
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    import asyncio
    import subprocess

    Process = subprocess.Popen[bytes]
    _Protocol = TypeVar("_Protocol", bound=asyncio.SubprocessProtocol)

#: A descriptor, a file, or one of the constants of `subprocess`; None inherits our own stream.
Stream = int | IO[bytes] | None

#: The constants of `subprocess`, which is slow to import.
PIPE, STDOUT, DEVNULL = -1, -2, -3
#: Bytes of a socket path that every system accepts.
_LONGEST_SOCKET_PATH: Final = 100


class ProcessOptions(TypedDict, total=False):
    """How to start a process."""

    #: All variables. Those that would load code from untrusted folders are dropped (`host_environment`).
    environment: Required[Mapping[str, str]]
    #: Keep these variables too: the environment was made for this command.
    is_environment_final: bool
    #: Programs take settings, plugins and modules from their folder, so any other than `/` needs a reason in `because`.
    cwd: str | os.PathLike[str]
    because: str
    stdin: Stream
    stdout: Stream
    stderr: Stream
    pass_fds: Sequence[int]
    #: Folders that commands can write to; by default the one that this process works in.
    untrusted: Folders | None
    #: Let the program use our terminal; by default it gets a new session, without one.
    has_terminal: bool


def open_process(argv: Sequence[str], **options: Unpack[ProcessOptions]) -> Process:
    """Start a program by its absolute path; the caller waits for it or kills it. Streams are DEVNULL by default.

    Raises OSError when it cannot be started, ValueError for options that break the rules above, and TypeError for
    unknown options.
    """
    import subprocess

    return subprocess.Popen(list(argv), **_popen_arguments(argv, options))


async def open_process_with_protocol(
    make_protocol: Callable[[], _Protocol], argv: Sequence[str], **options: Unpack[ProcessOptions]
) -> tuple[asyncio.SubprocessTransport, _Protocol]:
    """Start a program as `open_process` does, with an asyncio protocol; output streams are pipes by default."""
    import asyncio

    arguments = _popen_arguments(argv, {"stdout": PIPE, "stderr": PIPE, **options})
    return await asyncio.get_running_loop().subprocess_exec(make_protocol, *argv, **arguments)


def _popen_arguments(argv: Sequence[str], options: ProcessOptions) -> dict[str, Any]:
    if unknown := options.keys() - ProcessOptions.__annotations__.keys():
        raise TypeError(f"unknown options to start a process: {', '.join(sorted(unknown))}")
    cwd = os.fspath(options.get("cwd", os.sep))
    if not argv or not os.path.isabs(argv[0]):
        raise ValueError(f"a program is started by its absolute path, not as {argv[0] if argv else ''!r}")
    if cwd != os.sep and not options.get("because"):
        raise ValueError(f"running {argv[0]} in {cwd} needs a reason")
    if not os.path.isabs(cwd):
        raise ValueError(f"a program is started in an absolute folder, not in {cwd!r}")
    environment = options["environment"]
    if not options.get("is_environment_final"):
        environment = host_environment(environment, options.get("untrusted"))
    return {
        **{name: options.get(name, DEVNULL) for name in ("stdin", "stdout", "stderr")},
        "cwd": cwd,
        "env": dict(environment),
        "close_fds": True,
        "pass_fds": tuple(options.get("pass_fds", ())),
        "start_new_session": not options.get("has_terminal"),
    }


def memory_file(content: bytes) -> int:
    """Return the descriptor of an unnamed file with this content, positioned at its beginning; raises OSError."""
    import tempfile

    has_memfd = hasattr(os, "memfd_create")
    with open(os.memfd_create("amplifier"), "w+b") if has_memfd else tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())


def make_socket_folder(prefix: str, name: str) -> Path:
    """Create a private folder for a socket `name` to talk to a process; raises OSError.

    It is in the temporary folder, or in `/tmp` where the path of the socket would be too long otherwise.
    """
    import tempfile

    folder = tempfile.mkdtemp(prefix=prefix)
    if len(os.fsencode(os.path.join(folder, name))) > _LONGEST_SOCKET_PATH:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix=prefix, dir="/tmp")
    return Path(folder)


# --- running a trusted program to its end ---

#: Bytes of output that are kept, from the end: that is where the reason of a failure is.
OUTPUT_LIMIT: Final = 256 * 1024
#: Seconds to wait for a killed process; one that hangs in the kernel (a dead network share) is abandoned.
_KILL_WAIT: Final = 5.0
#: Seconds that descendants of a killed program may take to end by themselves, and between two looks at them.
_DESCENDANTS_WAIT: Final = 10.0
_SHORT_INTERVAL: Final = 0.01
#: Seconds between checks whether the program has exited, as another process may keep its output open.
_POLL_INTERVAL: Final = 0.05


class CommandTimeoutError(Exception):
    """A program did not end in time, and its process group was killed."""

    code: Final = "command_timeout"

    def __init__(self, program: str, seconds: float, output: str, stderr: bytes = b"") -> None:
        super().__init__(f"{program} took longer than {seconds:g} s and was stopped")
        #: Its output so far, and what it wrote to stderr if the streams are split.
        self.output = output
        self.stderr = stderr


class CommandResult(FrozenStruct):
    """The exit code and the output of a program; unless the streams are split, `stdout` has both."""

    returncode: int
    stdout: bytes
    stderr: bytes = b""

    @property
    def output(self) -> str:
        return self.stdout.decode("utf-8", "replace")


async def run_command(
    argv: Sequence[str], *, timeout: float, env: Mapping[str, str], cwd: Path | None = None, because: str = ""
) -> CommandResult:
    """Run a program in a thread, stdout and stderr as one stream; any exit code is a result.

    When the caller is cancelled (KeyboardInterrupt under `asyncio.run` too), the process group is killed before this
    returns. Raises as `run_program`.
    """
    from amplifier_kit.threads import run_stoppable

    def work(stop: threading.Event) -> CommandResult:
        return run_program(argv, timeout=timeout, environment=env, cwd=cwd, because=because, stop=stop)

    return await run_stoppable(work, grace=None)


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
    on_stdout: Callable[[bytes], bool] | None = None,
    pass_fds: Sequence[int] = (),
    stop: threading.Event | None = None,
    ends_with_descendants: bool = False,
) -> CommandResult:
    """Run a program and return its exit code and output.

    data: The bytes on its stdin; by default that is empty.
    is_split: Keep stderr apart from stdout.
    limit: Bytes to keep of each stream; OUTPUT_LIMIT by default.
    on_stdout: Gets stdout in pieces, which are then not kept. When it returns True, the program is killed, and its
        exit code is that of the kill.
    pass_fds: Descriptors that the program inherits.
    stop: Ends the program when set.
    ends_with_descendants: When the program is killed, wait up to ten seconds for what it has started in other process
        groups and what ends by itself then, such as commands under a supervisor.

    A name without a path is looked up on PATH, outside of the project. The program runs in the root folder, where no
    settings can be planted; another folder needs a reason (`ProcessOptions`). Raises OSError when it cannot be
    started, and CommandTimeoutError after `timeout` seconds or when stopped: then its process group has been killed.
    """
    program = argv[0] if os.path.isabs(argv[0]) else find_program(argv[0], environment.get("PATH"))
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    stdin = DEVNULL if data is None else memory_file(data)
    try:
        process = open_process(
            [program, *argv[1:]],
            environment=environment,
            cwd=os.sep if cwd is None else cwd,
            because=because,
            stdin=stdin,
            stdout=PIPE,
            stderr=PIPE if is_split else STDOUT,
            pass_fds=pass_fds,
        )
    finally:
        if stdin != DEVNULL:
            os.close(stdin)
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    end = _End(time.monotonic() + timeout, stop)
    try:
        output = _read(process, streams, OUTPUT_LIMIT if limit is None else limit, end, on_stdout)
        if process.returncode is not None:
            return CommandResult(process.returncode, *output)
    finally:
        if process.returncode is None:
            started = _pause(process) if ends_with_descendants else []
            _kill_group(process)
            _wait_for(started)
        for stream in streams:
            stream.close()
    if end.has_enough:
        return CommandResult(-signal.SIGKILL, *output)
    raise CommandTimeoutError(os.path.basename(argv[0]), timeout, output[0].decode("utf-8", "replace"), *output[1:])


class _End:
    """When to end a program that has not exited."""

    def __init__(self, deadline: float, stop: threading.Event | None) -> None:
        self._deadline = deadline
        self._stop = stop
        self.has_enough = False

    def seconds_left(self) -> float:
        """Return the time until the end; not above 0 when it is there."""
        if self.has_enough or (self._stop is not None and self._stop.is_set()):
            return 0.0
        return self._deadline - time.monotonic()


def _read(
    process: Process,
    streams: list[IO[bytes]],
    limit: int,
    end: _End,
    on_stdout: Callable[[bytes], bool] | None,
) -> list[bytes]:
    """Read until the process has exited or is to be ended; return the end of each stream."""
    import selectors
    import subprocess

    kept = {stream.fileno(): bytearray() for stream in streams}
    first = streams[0].fileno()

    def read_chunk(number: int) -> bool:
        try:
            data = os.read(number, 65536)
        except BlockingIOError:
            return False
        if on_stdout is not None and number == first:
            end.has_enough = end.has_enough or (bool(data) and on_stdout(data))
            return bool(data)
        kept[number] += data
        if len(kept[number]) > 2 * limit:
            del kept[number][:-limit]
        return bool(data)

    with selectors.DefaultSelector() as selector:
        for number in kept:
            os.set_blocking(number, False)
            selector.register(number, selectors.EVENT_READ)
        while (left := end.seconds_left()) > 0:
            if not selector.get_map():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(left, _POLL_INTERVAL))
            for key, _ in selector.select(min(left, _POLL_INTERVAL)) if selector.get_map() else ():
                if not read_chunk(key.fd):
                    selector.unregister(key.fd)
            # The exit of the program counts, not the end of its output: a background process may keep that open.
            if process.poll() is not None:
                for number in kept:
                    while not end.has_enough and read_chunk(number):
                        pass
                break
    return [bytes(data[-limit:]) for data in kept.values()]


def _pause(process: Process) -> list[int]:
    """Stop the process group of a program, so that it starts nothing more, and return its running descendants."""
    from amplifier_kit.guard.processes.supervisor import descendants

    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGSTOP)
    return descendants(process.pid)


def _wait_for(pids: list[int]) -> None:
    """Wait until processes, and those that they start meanwhile, are gone; not longer than they may take to end."""
    from amplifier_kit.guard.processes.supervisor import running

    deadline = time.monotonic() + _DESCENDANTS_WAIT
    while pids and time.monotonic() < deadline:
        if pids := running(pids):
            time.sleep(_SHORT_INTERVAL)


def _kill_group(process: Process) -> None:
    """Kill the process group of a program; it has not been waited for, so its id cannot have been reused."""
    import subprocess

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # all have exited; macOS reports a group of zombies as the latter
    try:
        process.wait(_KILL_WAIT)
    except subprocess.TimeoutExpired:
        pass  # it hangs in the kernel
