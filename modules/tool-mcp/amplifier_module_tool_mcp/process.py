"""Run a server as a process: in the sandbox, without a terminal, and gone with all it started when it is closed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from amplifier_kit.guard.processes.programs import find_program, host_environment, is_below
from amplifier_kit.guard.processes.running_command import (
    CommandSpec,
    RunningCommand,
    StartError,
    signal_name,
    start,
    to_end,
)
from amplifier_kit.guard.sandbox.program_paths import script_of
from amplifier_module_tool_mcp.faults import ServerFault, short
from amplifier_module_tool_mcp.messages import MessageReader, read_message
from amplifier_module_tool_mcp.sandbox import Launch, ServerSandbox
from amplifier_module_tool_mcp.server_entry import Resolved
from amplifier_module_tool_mcp.server_log import ErrorStream

logger = logging.getLogger(__name__)

#: Puts the program given after it in its own place, with the pipe as its input.
_WITH_INPUT: Final = 'exec "$@" <"$0"'
#: What of our environment a server gets without being given it by its config.
_INHERITED: Final = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"),
    # where the machine keeps its certificates
    *("CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
)
#: Seconds for a server to end by itself once its input is closed.
_POLITE: Final = 1.0


class ServerProcess:
    """A server that talks by its standard input and output, as a transport of the SDK.

    Entered, it starts the server; left, it ends it and everything below it. `fault` says why it ended by itself.
    """

    def __init__(
        self,
        resolved: Resolved,
        *,
        folder: str,
        sandbox: ServerSandbox,
        untrusted_project: Callable[[], str],
        largest: int,
        errors: Callable[[], ErrorStream],
    ) -> None:
        self._resolved = resolved
        self._folder = folder
        self._sandbox = sandbox
        #: Returns the folder of the project if it is not trusted, with links resolved; else nothing.
        self._untrusted_project = untrusted_project
        self._largest = largest
        self._make_errors = errors
        self.fault: ServerFault | None = None
        #: Set when the server is gone, or of no use any more.
        self.ended = asyncio.Event()
        self._stack = contextlib.AsyncExitStack()
        self._errors: ErrorStream | None = None
        self._has_spoken = False

    @property
    def said(self) -> str:
        """Return the last useful line of its standard error."""
        return self._errors.error_line if self._errors is not None else ""

    async def __aenter__(self) -> Any:
        async with contextlib.AsyncExitStack() as stack:
            streams = await stack.enter_async_context(self._open())
            self._stack = stack.pop_all()
            return streams

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.__aexit__(*error)

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[Any]:
        import shutil
        import tempfile

        import anyio

        launch = await asyncio.to_thread(self._launch)
        errors = self._errors = self._make_errors()
        reader = MessageReader(self._largest)
        place = Path(tempfile.mkdtemp(prefix="amplifier-mcp-"))
        to_session, incoming = anyio.create_memory_object_stream[Any](0)
        outgoing, from_session = anyio.create_memory_object_stream[Any](0)
        pipe = -1
        running: RunningCommand | None = None
        pumps: list[asyncio.Task[None]] = []
        try:
            pipe = _pipe(place / "input")
            argv = ["/bin/sh", "-c", _WITH_INPUT, str(place / "input"), *launch.argv]
            order = CommandSpec(argv, launch.folder, launch.environment)
            running = self._started(order, reader, errors)
            pumps.append(asyncio.create_task(self._pump_in(reader, read_message, to_session, running, errors)))
            pumps.append(asyncio.create_task(self._pump_out(from_session, pipe)))
            yield incoming, outgoing
        finally:
            for pump in pumps:
                pump.cancel()
            try:
                await _gone(running, pipe, pumps, _POLITE if self._has_spoken else 0.0)
            finally:  # who is cancelled meanwhile hears of it here
                for stream in (to_session, incoming, outgoing, from_session):
                    stream.close()
                errors.close()
                self._sandbox.release()
                shutil.rmtree(place, ignore_errors=True)

    def _launch(self) -> Launch:
        """Return the process to start.

        A server has what its config gives it: keys, a network. A name on PATH is therefore never looked up in folders
        that commands can write to, neither by us nor by the server; a path in the config is taken as it is, but that of
        a program in a project which is not trusted is refused.
        """
        resolved = self._resolved
        untrusted = self._sandbox.writable_roots()
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment = {**host_environment(inherited, untrusted), "TERM": "dumb", **resolved.env}
        program = find_program(_placed(resolved.command, self._folder), environment.get("PATH"), untrusted)
        if program is None:
            reason, advice = f"there is no program {resolved.command!r} to start", ""
            if found := find_program(resolved.command, {**inherited, **resolved.env}.get("PATH"), []):
                reason += " outside of the project"
                advice = f"Write its path to start {found}"
            raise ServerFault("command_not_found", resolved.mask.diagnostic(reason), resolved.mask.diagnostic(advice))
        argv = [program, *resolved.args]
        if project := self._untrusted_project():
            self._check_trust(argv, project)
            if "-m" in resolved.args:
                # `python -m NAME` would take a module of that name from the folder that it is started in.
                environment.setdefault("PYTHONSAFEPATH", "1")
        return self._sandbox.launch(program, resolved.args, self._folder, environment)

    def _check_trust(self, argv: Sequence[str], project: str) -> None:
        """Raise ServerFault for code of a project that is not trusted: the program, or the script that it runs.

        An absolute path in the entry is the user's word for that file; a relative one means another in each project.
        """
        named = {self._resolved.command, *self._resolved.args}
        for path in filter(None, (argv[0], script_of(argv, self._folder))):
            if path in named and os.path.isabs(path):
                continue
            if any(is_below(each, project) for each in (os.path.normpath(path), os.path.realpath(path))):
                reason = self._resolved.mask.diagnostic(f"{path} is part of this project, which is not trusted")
                raise ServerFault("untrusted", reason, "Look at it, then trust the project with `amplifier trust`")

    def _started(self, order: CommandSpec, reader: MessageReader, errors: ErrorStream) -> RunningCommand:
        try:
            return start(order, reader, errors)
        except (StartError, ValueError) as error:
            raise ServerFault("start_failed", self._resolved.mask.diagnostic(str(error))) from error

    async def _pump_in(
        self,
        reader: MessageReader,
        parse: Callable[[bytes], Any],
        session: Any,
        running: RunningCommand,
        errors: ErrorStream,
    ) -> None:
        """Pass messages on until there are no more; then report to the session that the connection is closed."""
        import anyio

        try:
            while (message := await reader.next(parse)) is not None:
                self._has_spoken = True
                await session.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session is gone: nothing more is to be passed on
        if reader.fault is None:
            await _wait(running, _POLITE)
        self.fault = reader.fault or _ending(running, errors)
        self.ended.set()
        session.close()

    async def _pump_out(self, messages: Any, pipe: int) -> None:
        async with messages:
            async for sent in messages:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                await _write(pipe, text.encode("utf-8", "replace") + b"\n")


def _placed(command: str, folder: str) -> str:
    """Return where a command with a path in it is: relative ones are below the server's folder."""
    command = os.path.expanduser(command)
    return os.path.join(folder, command) if os.sep in command else command


def _pipe(path: Path) -> int:
    """Create a named pipe and return our end of it, opened without blocking."""
    try:
        os.mkfifo(path, 0o600)
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ServerFault("start_failed", f"its input cannot be made: {error.strerror}") from error


async def _write(pipe: int, data: bytes) -> None:
    loop = asyncio.get_running_loop()
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(pipe, left) :]
        except BlockingIOError:
            ready = asyncio.Event()
            loop.add_writer(pipe, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_writer(pipe)


async def _gone(running: RunningCommand | None, pipe: int, pumps: list[asyncio.Task[None]], moment: float) -> None:
    """Close a server's input, give it a moment, and end it with everything below it; not to be interrupted.

    One that has never said a word has nothing to put away, and gets no moment.
    """

    async def end() -> Any:
        for failed in await asyncio.gather(*pumps, return_exceptions=True):
            if isinstance(failed, Exception):
                logger.warning("tool-mcp: talking to a server failed: %r", failed)
        if pipe >= 0:
            os.close(pipe)
        if running is None:
            return None
        await _wait(running, moment)
        return await running.stop()

    await to_end(end())


async def _wait(running: RunningCommand, seconds: float) -> None:
    """Wait for a server to end, but not for longer."""
    waiting = asyncio.ensure_future(running.wait())
    try:
        await asyncio.wait([waiting], timeout=seconds)
    finally:
        waiting.cancel()


def _ending(running: RunningCommand, errors: ErrorStream) -> ServerFault:
    try:
        running.check_start()
    except StartError as error:
        return ServerFault("start_failed", str(error))
    code = running.outcome.returncode
    said = f": {errors.error_line}" if errors.error_line else ""
    if code is None:
        how = "it closed its output"
    elif code < 0:
        how = f"it was ended by {signal_name(-code)}"
    else:
        how = f"it ended with exit code {code}"
    return ServerFault("crashed", short(f"{how}{said}"))
