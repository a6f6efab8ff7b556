"""Run git so that it can do no harm: no shell, no questions, a deadline, bounded output, nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Final, NamedTuple

from amplifier_kit.processes.launch import open_process_with_protocol
from amplifier_kit.processes.programs import find_program

#: More than this of one answer is not read.
OUTPUT_LIMIT: Final = 256 * 1024
_ERROR_LIMIT: Final = 4 * 1024
#: How long a killed process may take to go; one that hangs in the system (a dead network share) is left to it.
_GRACE: Final = 1.0

#: Set by git itself for its hooks; they would make it look at another repository than the one asked for.
_MISLEADING: Final = frozenset(
    {
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"),
        *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE"),
        *("GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NAMESPACE"),
    }
)
_QUIET: Final = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
#: Settings of a repository that would start other programs, or change how git writes.
_OVERRIDES: Final = ("core.fsmonitor=false", "log.showSignature=false", "i18n.logOutputEncoding=UTF-8")


class Answer(NamedTuple):
    """What git said; `code` is None when it did not come to an end, `failure` says why there is no answer."""

    code: int | None
    output: bytes = b""
    is_cut: bool = False
    failure: str = ""

    @property
    def is_usable(self) -> bool:
        """Tell whether the output is what was asked for, or the first part of it."""
        return self.code == 0 or self.is_cut


class Git:
    """Ask git about one folder, all questions within one deadline."""

    def __init__(self, directory: str, seconds: float) -> None:
        self._directory = directory
        self._seconds = seconds
        self._deadline = asyncio.get_running_loop().time() + seconds

    async def ask(self, *arguments: str) -> Answer:
        """Return the answer to one git command; raise nothing, whatever git does."""
        if asyncio.get_running_loop().time() >= self._deadline:
            return self._too_late()
        try:
            transport, capture = await self._started(arguments)
        except FileNotFoundError:
            return Answer(None, failure="git is not installed")
        except (OSError, NotImplementedError) as error:
            return Answer(None, failure=f"git cannot be started: {error}")
        try:
            async with asyncio.timeout_at(self._deadline):
                await capture.answered
        except TimeoutError:
            return self._too_late()
        finally:
            await _end(transport, capture)
        if capture.is_cut:
            return Answer(None, bytes(capture.output), is_cut=True)
        return Answer(transport.get_returncode(), bytes(capture.output), failure=_first_line(capture.errors))

    async def _started(self, arguments: tuple[str, ...]) -> _Running:
        """Start git; when the caller is cancelled meanwhile, end it before passing that on."""
        loop = asyncio.get_running_loop()
        program = find_program("git", os.environ.get("PATH"), [self._directory])
        if program is None:
            raise FileNotFoundError("git")
        overrides = [part for override in _OVERRIDES for part in ("-c", override)]
        starting = loop.create_task(
            # The folder may be gone, or hang: git goes there by itself, where it can be stopped.
            open_process_with_protocol(
                lambda: _Capture(loop.create_future(), loop.create_future()),
                [program, "--no-pager", "-C", self._directory, *overrides, *arguments],
                environment=_environment(self._directory),
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

    def _too_late(self) -> Answer:
        return Answer(None, failure=f"git took longer than {self._seconds:g} s")


class _Capture(asyncio.SubprocessProtocol):
    """Collect what a process writes, up to the limits."""

    def __init__(self, answered: asyncio.Future[None], gone: asyncio.Future[None]) -> None:
        #: Done when there is nothing more to wait for: the process ended, or said more than anyone will read.
        self.answered = answered
        #: Done when the process has ended and its pipes are closed.
        self.gone = gone
        self.output = bytearray()
        self.errors = bytearray()
        self.is_cut = False

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self.errors += data[: _ERROR_LIMIT - len(self.errors)]
            return
        room = OUTPUT_LIMIT - len(self.output)
        self.output += data[:room]
        if len(data) > room:
            self.is_cut = True
            _finish(self.answered)

    def connection_lost(self, exc: Exception | None) -> None:
        _finish(self.answered)
        _finish(self.gone)


_Running = tuple[asyncio.SubprocessTransport, _Capture]


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _end(transport: asyncio.SubprocessTransport, capture: _Capture) -> None:
    """Leave no process behind, nor any that it started."""
    if not capture.gone.done():
        _kill_group(transport.get_pid())
    transport.close()
    await asyncio.wait([capture.gone], timeout=_GRACE)


def _kill_group(pid: int) -> None:
    if not hasattr(os, "killpg"):  # not on Windows; closing the transport ends the process itself
        return
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # Everything has ended meanwhile; macOS says the latter of a group of zombies.
        pass


def _environment(directory: str) -> dict[str, str]:
    """Return the environment of git; programs that lie in the folder asked about are not run."""
    inside = os.path.join(os.path.realpath(directory), "")
    path = [
        place
        for place in os.environ.get("PATH", os.defpath).split(os.pathsep)
        if os.path.isabs(place) and not os.path.join(os.path.realpath(place), "").startswith(inside)
    ]
    given = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    return given | _QUIET | {"PATH": os.pathsep.join(path)}


def _first_line(errors: bytearray) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return lines[0].removeprefix("fatal: ") if lines else ""
