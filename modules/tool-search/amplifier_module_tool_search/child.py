"""Run the process that searches: read what it says as it comes, stop it in time, leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final, Literal

#: How long a killed process may take to go; one that hangs in the system (a dead network share) is left to it.
_GRACE: Final = 1.0

Take = Callable[[bytes], bool]
How = Literal["ended", "late", "enough"]


@dataclass
class Command:
    """What to run: the program, where, what it reads, and what else it may have open."""

    argv: Sequence[str]
    cwd: str
    stdin: int | IO[bytes] = asyncio.subprocess.DEVNULL
    fds: tuple[int, ...] = ()
    env: dict[str, str] = field(default_factory=lambda: {"LC_ALL": "C.UTF-8"})


@dataclass(frozen=True)
class Ended:
    """How it ended: by itself with a code, or stopped because it was late or had said enough."""

    how: How
    code: int | None = None


async def run(command: Command, seconds: float, output: Take, errors: Take) -> Ended:
    """Run a process in a group of its own and hand over what it writes; `output` returns True when it has enough.

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

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self.settled.done():
            return
        try:
            has_enough = self._errors(data) if fd == 2 else self._output(data)
        except Exception as error:
            self.settled.set_exception(error)
            return
        if has_enough:
            self.settled.set_result("enough")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.settled.done():
            self.settled.set_result("ended")
        if not self.gone.done():
            self.gone.set_result(None)


_Running = tuple[asyncio.SubprocessTransport, _Reader]


async def _started(command: Command, output: Take, errors: Take) -> _Running:
    """Start it; when the caller is cancelled meanwhile, end it before passing that on."""
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {"pass_fds": command.fds} if command.fds else {}
    starting = loop.create_task(
        loop.subprocess_exec(
            lambda: _Reader(loop.create_future(), loop.create_future(), output, errors),
            *command.argv,
            stdin=command.stdin,
            cwd=command.cwd,
            env=command.env,
            start_new_session=True,
            **options,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # asyncio loses sight of a process that it is interrupted in starting, so it is not interrupted.
        while not starting.done():
            try:
                await asyncio.wait([starting])
            except asyncio.CancelledError:
                pass  # the one that is passed on below is enough
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
