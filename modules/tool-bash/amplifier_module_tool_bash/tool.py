"""The tool that models call."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_core import ToolResult
from amplifier_kit.engine.current_call import TOOL_PROGRESS, progress_reports
from amplifier_kit.guard.processes.output import Output
from amplifier_kit.guard.processes.programs import command_environment, find_program
from amplifier_kit.guard.processes.running_command import CommandSpec, StartError, run
from amplifier_kit.guard.sandbox.errors import SandboxError, SandboxRequiredError
from amplifier_kit.guard.sandbox.sandbox import EVENTS as SANDBOX_EVENTS
from amplifier_kit.guard.sandbox.sandbox import SandboxSetup, Status
from amplifier_module_tool_bash.call import Call, InvalidCallError, TooLongError, input_schema
from amplifier_module_tool_bash.config import BashConfig
from amplifier_module_tool_bash.jobs import MOST_JOBS, Jobs
from amplifier_module_tool_bash.output import OutputFolder, SavedOutput, failure, finished
from amplifier_module_tool_bash.sandbox import BashSandbox

if TYPE_CHECKING:
    from amplifier_module_tool_bash.safety import Safety

logger = logging.getLogger(__name__)

EVENTS: Final = (TOOL_PROGRESS, *SANDBOX_EVENTS)
#: Seconds between two reports of a running command.
EVERY: Final = 2.0
_LONGEST_LINE: Final = 200
#: Below the session's folder.
_FOLDER: Final = "command-output"
_SHELL: Final = "/bin/bash"
#: Seconds that closing waits for commands to stop; results name those that cannot be stopped.
_CLOSE_TIMEOUT: Final = 10.0


class BashTool:
    """Runs one shell command per call; the README lists the guarantees."""

    name = "bash"
    action = "process.exec"
    #: The action of a call that inspects or stops a background job.
    job_action = "tool.bash_job"
    #: None: each call has its own timeout, so that its result can show the output so far.
    deadline = None

    def __init__(self, coordinator: Any, settings: BashConfig, *, progress_every: float = EVERY) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._jobs = Jobs()
        self._progress_every = progress_every
        self._slots = asyncio.Semaphore(settings.max_concurrent) if settings.max_concurrent else nullcontext()
        self._sandbox = BashSandbox(coordinator, self.name, settings.sandbox)
        self._kept: OutputFolder | None = None
        #: The folder with complete outputs, which commands can read.
        self._outputs: str | None = None
        #: The running calls, each with a future that is done when its command has ended.
        self._calls: dict[asyncio.Task[Any], asyncio.Future[None]] = {}

    @cached_property
    def _safety(self) -> Safety:
        # The parser of shell commands takes long to import; the first command does so.
        from amplifier_module_tool_bash.safety import Safety

        return Safety(self._settings)

    @property
    def description(self) -> str:
        return (
            "Run a command with bash and return its stdout, stderr and exit code. Every call is a new shell in the "
            "working directory: `cd` and variables do not last. There is no terminal and no input: use flags that "
            f"answer questions. A command is stopped after `timeout` seconds ({self._settings.timeout:g}), and what "
            "it leaves running is stopped when it ends; `run_in_background` is for servers and watchers. Of long "
            "output the beginning and the end are returned, and the path of a file with all of it. Variables named "
            "like secrets are not passed on." + self._sandbox_description()
        )

    def _sandbox_description(self) -> str:
        settings = self._sandbox.settings
        if settings.mode == "off":
            return ""
        network = (
            "" if settings.network else "there is no network, and a server is reachable only from its own command; "
        )
        return (
            " Where available, commands run in a sandbox: they can write only to the project; the home folder and /tmp "
            f"are empty at the start of each; {network}failures caused by the sandbox say so."
        )

    @property
    def input_schema(self) -> dict[str, Any]:
        return input_schema(self._settings)

    def get_metadata(self) -> dict[str, Any]:
        """Return hints for approval policies."""
        return {
            "requires_approval": self._settings.require_approval,
            "approval_hints": {
                "risk_level": "high",
                "safety_profile": self._settings.safety_profile,
                "allowed_commands": list(self._settings.allowed_commands),
                "denied_commands": list(self._settings.denied_commands),
            },
        }

    def action_for(self, input: dict[str, Any]) -> str:
        """Return the action of a call: one that names a job runs no command."""
        try:
            return self.action if Call.from_input(input, self._settings).job is None else self.job_action
        except (InvalidCallError, TooLongError):
            return self.action

    @property
    def working_dir(self) -> str | None:
        """Return the folder that commands run in, for policies that judge what they write; None when it was removed."""
        try:
            return self._working_dir()
        except _NoFolderError:
            return None

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Run a command, or inspect or stop a background job; failures are results too."""
        try:
            call = Call.from_input(input, self._settings)
        except InvalidCallError as error:
            return failure("invalid_input", str(error))
        except TooLongError as error:
            return failure("too_long", f"Command was not run: {error}.")
        if call.job is not None:
            return await self._handle_job(call.job, call.command)
        if reason := self._safety.refusal(call.command):
            return failure("blocked", f"Command was not run: {reason}.")
        try:
            if call.is_background:
                return await self._start_job(call)
            return await self._run(call)
        except SandboxError as error:
            return await self._sandbox_failure(call.command, error)
        except StartError as error:
            return self._start_failure(error)
        except _NoFolderError as error:
            return failure("working_dir_missing", str(error))
        except OSError as error:
            return failure("not_started", f"Command was not run: {error.strerror or error}.")

    async def sandbox_status(self) -> Status:
        """Return whether commands run in a sandbox that works, for policies that allow them for this reason."""
        return await self._sandbox.status()

    def announce(self) -> None:
        """Start to test the sandbox and to report its status."""
        try:
            self._sandbox.announce()
        except FileNotFoundError:
            logger.warning("tool-bash: the current directory of the program was removed: no command can be run")

    async def close(self) -> None:
        """Cancel running calls, stop all jobs and remove temporary files."""
        for task in self._calls:
            task.cancel()
        if self._calls:
            await asyncio.wait(list(self._calls.values()), timeout=_CLOSE_TIMEOUT)
        alive = await self._jobs.stop()
        if alive:
            logger.warning("tool-bash: background processes %s could not be stopped", alive)
        if self._kept is not None:
            self._kept.close()
        await self._sandbox.close()

    async def _run(self, call: Call) -> ToolResult:
        task = asyncio.current_task()
        assert task is not None
        gone = asyncio.get_running_loop().create_future()
        self._calls[task] = gone
        try:
            return await self._run_in_turn(call)
        finally:
            self._calls.pop(task, None)
            gone.set_result(None)

    async def _run_in_turn(self, call: Call) -> ToolResult:
        limit = self._settings.max_output_bytes
        async with self._slots:
            folder = self._folder()
            stdout = SavedOutput(limit, folder, name="stdout")
            stderr = SavedOutput(limit, folder, name="stderr")
            spec, setup = await self._spec(call.command)
            try:
                describe = partial(_progress, (stdout, stderr))
                async with progress_reports(self._coordinator, self.name, self._progress_every, describe):
                    outcome = await run(spec, stdout, stderr, timeout=call.timeout)
            finally:
                setup.release()
        shown, errors = stdout.shown(), stderr.shown()
        self._remember_folder(shown.path, errors.path)
        remark = await self._sandbox.remark(call.command, outcome.returncode, f"{shown.text}\n{errors.text}")
        return finished(outcome, shown, errors, call.timeout, remark)

    async def _start_job(self, call: Call) -> ToolResult:
        if len(self._jobs.running) >= MOST_JOBS:
            return failure("too_many_jobs", f"Command was not run: {MOST_JOBS} background jobs run already.")
        spec, setup = await self._spec(call.command, keeps_background=True)
        try:
            job = await self._jobs.start(call.command, spec, setup, self._settings.max_output_bytes, self._folder())
        except BaseException:
            setup.release()
            raise
        self._remember_folder(job.output.path)
        return ToolResult(
            output={
                "pid": job.pid,
                "message": f"Command started in background with PID {job.pid}",
                "note": f"Its output goes to {job.output.path}. To look at it or end it, call bash with `job` "
                f'{job.pid} and the command "status" or "kill". It ends with the session.',
            }
        )

    async def _handle_job(self, pid: int, command: str) -> ToolResult:
        job = self._jobs.get(pid)
        if job is None:
            running = ", ".join(f"{job.pid} ({job.command[:60]})" for job in self._jobs.running) or "none"
            return failure("unknown_job", f"There is no background job {pid}. Running: {running}.")
        if command == "kill":
            await job.stop()
        said = job.describe()
        if not job.is_running and not job.is_blocked_reported:
            job.is_blocked_reported = True
            if remark := await self._sandbox.remark(job.command, job.returncode, said["stdout"]):
                said["message"] = remark
        return ToolResult(output=said)

    async def _spec(self, command: str, *, keeps_background: bool = False) -> tuple[CommandSpec, SandboxSetup]:
        folder = self._working_dir()
        environment, _ = command_environment((*self._settings.pass_env, *self._sandbox.settings.environment))
        readable = [self._outputs] if self._outputs else []
        setup = await self._sandbox.prepare(folder, environment, readable)
        argv = (_shell(), "--noprofile", "--norc", "-c", "--", command)
        return setup.confine(CommandSpec(argv, folder, environment, keeps_background=keeps_background)), setup

    def _working_dir(self) -> str:
        """Return the folder to run in. Only the command's own process enters it, as it may hang."""
        given = os.path.expanduser(self._settings.working_dir)
        if os.path.isabs(given):
            return given
        base = self._coordinator.get_capability("session.working_dir")
        try:
            return os.path.normpath(os.path.join(str(base) if base else os.getcwd(), given))
        except FileNotFoundError:
            raise _NoFolderError("Command was not run: the current directory of the program was removed.") from None

    def _folder(self) -> OutputFolder:
        if self._kept is None:
            own = self._coordinator.get_capability("session.dir")
            self._kept = OutputFolder(Path(own) / _FOLDER if own else None)
        return self._kept

    def _remember_folder(self, *paths: Path | None) -> None:
        for path in paths:
            if path is not None:
                self._outputs = str(path.parent)

    async def _sandbox_failure(self, command: str, error: SandboxError) -> ToolResult:
        message = f"Command was not run: {error}."
        if isinstance(error, SandboxRequiredError):
            await self._sandbox.refused(command, error)
        if error.code == "working_dir_missing":
            message += " It has to be made again first."
        return failure(error.code, message)

    def _start_failure(self, error: StartError) -> ToolResult:
        if error.step == "folder":
            message = f"the working directory {self._working_dir()} cannot be entered ({error.reason})"
            return failure("working_dir_missing", f"Command was not run: {message}. It has to be made again first.")
        if error.step == "sandbox":
            return failure("sandbox_failed", f"Command was not run: {error}.")
        if error.number == errno.E2BIG:
            message = "it is too long, together with the environment: write it to a file and run that"
            return failure("too_long", f"Command was not run: {message}.")
        if error.step == "program":
            return failure("no_shell", f"Command was not run: bash cannot be started ({error.reason}).")
        return failure("not_started", f"Command was not run: {error}.")


def _progress(outputs: Sequence[Output], seconds: float) -> dict[str, Any]:
    """Return what is reported of a command that has run for some seconds."""
    line = next((line for line in (output.last_line() for output in outputs) if line), "")[:_LONGEST_LINE]
    return {
        "message": f"running for {seconds:.0f} s" + (f": {line}" if line else ""),
        "elapsed": round(seconds, 1),
        "last_line": line,
        "output_bytes": sum(output.total for output in outputs),
    }


def _shell() -> str:
    if os.path.exists(_SHELL):
        return _SHELL
    return find_program("bash", os.environ.get("PATH")) or _SHELL


class _NoFolderError(Exception):
    """The current directory, to which the working directory is relative, was removed."""
