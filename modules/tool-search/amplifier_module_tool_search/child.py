"""Run the searching process: read its output as it comes, stop it in time, leave nothing behind."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Final, Literal, NamedTuple, cast

from amplifier_kit.guard.processes.launch import open_process_with_protocol
from amplifier_kit.guard.processes.running_command import to_end

#: How long a killed process may take to go; one that hangs in the system (a dead network share) is left to it.
_GRACE: Final = 1.0
#: Output in many small pieces is read in turns: handling each piece would cost more than its content.
_FREE_PIECES: Final = 16
_SMALL_PIECE: Final = 32 * 1024
_TURN: Final = 0.004
#: What a pipe holds meanwhile, where the system allows it.
_PIPE_SIZE: Final = 1024 * 1024

Take = Callable[[bytes], bool]
How = Literal["ended", "late", "enough"]


@dataclass
class Command:
    """A process to run: the program, its folder, its stdin and the descriptors that it inherits."""

    argv: Sequence[str]
    cwd: str
    stdin: int | IO[bytes] = asyncio.subprocess.DEVNULL
    fds: tuple[int, ...] = ()
    env: dict[str, str] = field(default_factory=lambda: {"LC_ALL": "C.UTF-8"})


class Ended(NamedTuple):
    """How it ended: by itself with a code, or stopped because it was late or had said enough."""

    how: How
    code: int | None = None


async def run(command: Command, seconds: float, output: Take, errors: Take) -> Ended:
    """Run a process in its own group and hand over its output; `output` returns True when it has enough.

    When the time is up or the caller is cancelled, the whole group is killed, and gone before this returns or raises.
    Raises OSError when the program cannot be started.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    transport, reader = await _started(command, output, errors)
    how: How = "late"
    try:
        async with asyncio.timeout_at(deadline):
            how = await reader.settled
    except TimeoutError:
        pass
    finally:
        await _end(transport, reader)
    return Ended(how, transport.get_returncode() if how == "ended" else None)


class _Reader(asyncio.SubprocessProtocol):
    def __init__(self, settled: asyncio.Future[How], gone: asyncio.Future[None], output: Take, errors: Take) -> None:
        #: Done when there is nothing more to wait for.
        self.settled = settled
        #: Done when the process has ended and its pipes are closed.
        self.gone = gone
        self._output = output
        self._errors = errors
        self._pieces = 0
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self.settled.done():
            return
        if fd == 1 and len(data) < _SMALL_PIECE:
            self._pieces += 1
            if self._pieces > _FREE_PIECES:
                self._wait_a_turn()
        try:
            has_enough = self._errors(data) if fd == 2 else self._output(data)
        except Exception as error:
            self.settled.set_exception(error)
            return
        if has_enough:
            self.settled.set_result("enough")

    def _wait_a_turn(self) -> None:
        pipe = None if self._transport is None else self._transport.get_pipe_transport(1)
        if pipe is None or pipe.is_closing():
            return
        reading = cast(asyncio.ReadTransport, pipe)
        if self._pieces == _FREE_PIECES + 1:
            _widen(reading.get_extra_info("pipe").fileno())
        reading.pause_reading()
        self.settled.get_loop().call_later(_TURN, reading.resume_reading)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.settled.done():
            self.settled.set_result("ended")
        if not self.gone.done():
            self.gone.set_result(None)


def _widen(fd: int) -> None:
    """Let a pipe hold more; where that is not allowed, who writes waits sooner."""
    with suppress(OSError, AttributeError):  # refused to users with many pipes; only Linux has it
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)


_Running = tuple[asyncio.SubprocessTransport, _Reader]


async def _started(command: Command, output: Take, errors: Take) -> _Running:
    """Start a command; if the caller is cancelled meanwhile, end it first."""
    loop = asyncio.get_running_loop()
    starting = loop.create_task(
        open_process_with_protocol(
            lambda: _Reader(loop.create_future(), loop.create_future(), output, errors),
            command.argv,
            environment=command.env,
            cwd=command.cwd,
            because="paths are printed as seen from there; ripgrep reads no config, Python no modules (-I -S)",
            stdin=command.stdin,
            pass_fds=command.fds,
        )
    )
    try:
        # Not interrupted: asyncio would lose track of a process that is being started.
        return await to_end(starting)
    except asyncio.CancelledError:
        if not starting.cancelled() and starting.exception() is None:
            await _end(*starting.result())
        raise


async def _end(transport: asyncio.SubprocessTransport, reader: _Reader) -> None:
    """Leave no process behind, nor any that it started."""
    if not reader.gone.done():
        try:
            os.killpg(transport.get_pid(), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # everything has ended meanwhile; macOS says the latter of a group of zombies
    transport.close()
    gone = asyncio.ensure_future(asyncio.wait([reader.gone], timeout=_GRACE))
    try:
        await asyncio.shield(gone)
    except asyncio.CancelledError:
        await gone
        raise
