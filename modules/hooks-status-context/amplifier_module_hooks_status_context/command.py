"""Run git queries safely: nothing of the repository is executed, the time and the output are limited.

git reads the repository through a private git folder (`amplifier_kit.guard.git`), in the session's sandbox where there
is one, and cannot write to it. Queries that belong together run in one start of the sandbox.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import signal
from collections.abc import Sequence
from typing import Final

from amplifier_kit.guard.git import (
    GitMissingError,
    PrivateGitDir,
    UnsafeRepositoryError,
    UserSettings,
    find_git,
    find_repository,
    read_user_settings,
)
from amplifier_kit.guard.processes.launch import open_process_with_protocol
from amplifier_kit.guard.processes.running_command import to_end
from amplifier_kit.guard.sandbox.errors import SandboxError
from amplifier_kit.guard.sandbox.sandbox import Sandbox, SandboxSetup
from amplifier_kit.struct import FrozenStruct
from amplifier_kit.threads import obtain

logger = logging.getLogger(__name__)

#: Bytes that are read of one answer.
OUTPUT_LIMIT: Final = 256 * 1024
_ERROR_LIMIT: Final = 64 * 1024
#: Bytes that are read of all answers together.
_TOTAL_LIMIT: Final = 2 * OUTPUT_LIMIT
#: Seconds to wait for a killed process; one that hangs in the kernel (a dead network share) is left behind.
_GRACE: Final = 1.0
_SHELL: Final = "/bin/sh"
#: Exit codes of the shell for a program that it cannot run.
_NOT_STARTED: Final = (126, 127)


class Answer(FrozenStruct):
    """The output of git; `code` is None when it did not finish, `failure` is the reason."""

    code: int | None
    output: bytes = b""
    is_cut: bool = False
    failure: str = ""

    @property
    def is_usable(self) -> bool:
        """Return whether the output is complete, or the first part of a long one."""
        return self.code == 0 or self.is_cut


class NoRepositoryError(Exception):
    """The folder is not in a repository."""


class GitUnavailableError(Exception):
    """git cannot read the folder; the text is the reason."""


class Git:
    """Read repositories for one session."""

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        """Run git in the sandbox if one is given."""
        self._sandbox = sandbox
        self._user: UserSettings | None = None
        self._logged: set[str] = set()

    async def open(self, directory: str, seconds: float) -> OpenRepository:
        """Prepare to read the repository of a folder within a number of seconds; the caller closes the result.

        Raises NoRepositoryError, and GitUnavailableError; an unsafe repository is logged once.
        """
        if self._sandbox is not None:
            await self._sandbox.ready()
        deadline = asyncio.get_running_loop().time() + seconds
        # In a thread: the folder may be on a share that hangs.
        try:
            async with asyncio.timeout_at(deadline):
                private, setup = await obtain(lambda: self._prepare(directory), lambda prepared: prepared[0].close())
        except TimeoutError:
            raise GitUnavailableError(_too_late(seconds)) from None
        except (UnsafeRepositoryError, SandboxError) as error:
            raise GitUnavailableError(self._log_refusal(str(error))) from error
        except GitMissingError as error:
            raise GitUnavailableError("git is not installed") from error
        except OSError as error:
            raise GitUnavailableError(f"cannot read '{directory}': {error.strerror or error}") from error
        return OpenRepository(private, setup, seconds, deadline)

    def _prepare(self, directory: str) -> tuple[PrivateGitDir, SandboxSetup]:
        project = self._sandbox.project if self._sandbox is not None else directory
        repository = find_repository(directory, project)
        if repository is None:
            raise NoRepositoryError
        if self._sandbox is not None:
            self._sandbox.check()
        # Commands can write to these, so they do not decide what git is.
        program = find_git(outside=[directory, project, repository.root or directory])
        if self._user is None:
            self._user = read_user_settings(program)
        private = PrivateGitDir(repository, program, self._user)
        try:
            if self._sandbox is None:
                return private, SandboxSetup.none(private.environment)
            folder = repository.root or directory
            environment, readable = private.environment, private.readable
            return private, self._sandbox.prepare(folder, environment, readable=readable, is_read_only=True)
        except BaseException:
            private.close()
            raise

    def _log_refusal(self, reason: str) -> str:
        if reason not in self._logged:
            self._logged.add(reason)
            logger.warning("git is not run, its status is left out: %s", reason)
        return reason


class OpenRepository:
    """One repository; all queries share one deadline."""

    def __init__(self, private: PrivateGitDir, setup: SandboxSetup, seconds: float, deadline: float) -> None:
        self._private = private
        self._setup = setup
        self._seconds = seconds
        self._deadline = deadline

    @property
    def root(self) -> str:
        """Return the folder that the paths in git's output are relative to."""
        return self._private.repository.root or ""

    def close(self) -> None:
        """Remove the private git folder."""
        self._private.close()

    async def ask(self, *questions: Sequence[str]) -> list[Answer]:
        """Run git commands one after the other and return their answers; failures are in the answers."""
        if asyncio.get_running_loop().time() >= self._deadline:
            return [Answer(None, failure=_too_late(self._seconds)) for _ in questions]
        mark = os.urandom(16).hex()
        commands = [shlex.join(self._private.command(*question)) for question in questions]
        ends = f"; printf '{mark}%s\\n' $?; printf {mark} >&2\n"
        script = "".join(f"{command}{ends}" for command in commands)
        try:
            transport, capture = await self._start(script)
        except (OSError, NotImplementedError) as error:
            return [Answer(None, failure=f"git cannot be started: {error}") for _ in questions]
        try:
            async with asyncio.timeout_at(self._deadline):
                await capture.answered
        except TimeoutError:
            failure = _too_late(self._seconds)
        else:
            failure = self._problem(capture)
        finally:
            await _end(transport, capture)
        return _answers(len(questions), mark, capture, failure)

    def _problem(self, capture: _Capture) -> str:
        """Return the reason for missing answers."""
        if capture.is_cut:
            return "git wrote too much"
        said = _first_line(bytes(capture.errors))
        return f"the sandbox could not be set up: {said}" if self._setup.argv else said

    async def _start(self, script: str) -> _Running:
        """Start the shell; if the caller is cancelled meanwhile, end it first.

        The runner of the kit would start one more Python process, which is too slow before every request.
        """
        loop = asyncio.get_running_loop()
        starting = loop.create_task(
            # Without a working directory: the folder may be missing or hang, and git itself can be stopped.
            open_process_with_protocol(
                lambda: _Capture(loop.create_future(), loop.create_future()),
                (*self._setup.argv, _SHELL, "-c", script),
                environment=self._setup.environment,
                untrusted=[self.root],
            )
        )
        try:
            # Not interrupted: asyncio would lose track of a process that is being started.
            return await to_end(starting)
        except asyncio.CancelledError:
            if not starting.cancelled() and starting.exception() is None:
                await _end(*starting.result())
            raise


class _Capture(asyncio.SubprocessProtocol):
    """Collect the output of a process, up to the limits."""

    def __init__(self, answered: asyncio.Future[None], gone: asyncio.Future[None]) -> None:
        #: Done when the process has ended or has written more than the limit.
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
        space = _TOTAL_LIMIT - len(self.output)
        self.output += data[:space]
        if len(data) > space:
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
    """Kill the process and everything that it started."""
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
        # Everything has ended meanwhile; macOS raises PermissionError for a group of zombies.
        pass


def _answers(count: int, mark: str, capture: _Capture, failure: str) -> list[Answer]:
    parts = re.split(mark.encode() + rb"([0-9]+)\n", bytes(capture.output))
    errors = bytes(capture.errors).split(mark.encode())
    answers = []
    for number in range(count):
        said = _first_line(errors[number]) if number < len(errors) else ""
        if 2 * number + 1 < len(parts):
            output, code = parts[2 * number], int(parts[2 * number + 1])
            said = f"git cannot be started: {said}" if code in _NOT_STARTED else said
            answers.append(Answer(code, output[:OUTPUT_LIMIT], len(output) > OUTPUT_LIMIT, said))
        elif 2 * number + 1 == len(parts) and capture.is_cut:
            answers.append(Answer(None, parts[-1][:OUTPUT_LIMIT], is_cut=True))
        else:
            answers.append(Answer(None, failure=failure))
    return answers


def _too_late(seconds: float) -> str:
    return f"git took longer than {seconds:g} s"


def _first_line(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return lines[0].removeprefix("fatal: ") if lines else ""
