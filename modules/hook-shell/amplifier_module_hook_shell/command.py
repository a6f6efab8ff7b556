"""Run the command of a hook, with a deadline and without leaving a process; those of the project run in the sandbox."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from amplifier_kit.guard.processes.output import Output
from amplifier_kit.guard.processes.programs import host_environment
from amplifier_kit.guard.processes.running_command import CommandSpec, StartError, run
from amplifier_kit.guard.processes.running_command import Outcome as Ended
from amplifier_kit.guard.sandbox.errors import SandboxError
from amplifier_kit.guard.sandbox.sandbox import Sandbox, SandboxSetup, sandbox_of
from amplifier_kit.threads import obtain
from amplifier_module_hook_shell.answer import AnswerError, Outcome, read_answer
from amplifier_module_hook_shell.hook_files import Hook

# --- sandbox ---


class Confinement:
    """The sandbox for the hooks of one session."""

    def __init__(self, coordinator: Any, settings: Any) -> None:
        self._coordinator = coordinator
        self._config = {"sandbox": settings}

    async def prepare(
        self, hook: Hook, project: Path, folder: Path, environment: Mapping[str, str], note: str, env_file: str
    ) -> SandboxSetup:
        """Return the setup of a hook, which the caller releases.

        `note` is the file that it reads, `env_file` the one that it may write. Raises SandboxError when it cannot be
        run in the sandbox, and ValueError for wrong settings.
        """
        setup = partial(self._setup, hook, project, folder, environment, note, env_file)
        return await obtain(setup, SandboxSetup.release)

    def _setup(
        self, hook: Hook, project: Path, folder: Path, environment: Mapping[str, str], note: str, env_file: str
    ) -> SandboxSetup:
        sandbox: Sandbox = sandbox_of(self._coordinator, self._config, project=project)
        if hook.source.is_projects:
            readable = [note] if hook.source.folder is None else [note, str(hook.source.folder)]
            writable = [env_file] if folder == project else [env_file, str(folder)]
            setup = sandbox.prepare(str(folder), environment, writable=writable, readable=readable)
            if setup.argv:
                return setup
        untrusted = [*sandbox.writable_roots(), str(folder)]
        return SandboxSetup.none(host_environment(environment, untrusted))


# --- command ---

#: The hook reads the event from a file, so that we need not write it to a pipe while it runs.
_LAUNCH: Final = '{ exec "$1" -c "$2"; } <"$0" || exit 126'
_SHELLS: Final = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
#: Characters of a reason that are shown.
_REASON_LIMIT: Final = 4000


async def run_command(
    hook: Hook,
    facts: bytes,
    confine: Callable[[str], Awaitable[SandboxSetup]],
    folder: Path,
    *,
    timeout: float,
    max_output: int,
    stop: asyncio.Future[None] | None,
) -> Outcome:
    """Run a hook with the event (`facts`) as its input and return its outcome; raises only the caller's cancellation.

    `confine` returns its sandbox and environment, given the file with the event. If `folder` was removed, it runs in
    the root folder: a hook is not skipped because of that.
    """
    stdout, stderr = Output(max_output), Output(max_output)
    note: str | None = None
    setup: SandboxSetup | None = None
    try:
        note = await asyncio.to_thread(_write_event, facts)
        setup = await confine(note)
        ended = await _to_its_end(_run(_argv(hook, note), setup, folder, stdout, stderr, timeout), stop)
    except (StartError, SandboxError, OSError, ValueError) as error:
        return Outcome("error", error=f"it cannot be started: {error}")
    finally:
        if setup is not None:
            setup.release()
        if note is not None:
            _remove(note)
    if ended is None:
        return Outcome("cancelled", error="the session was asked to stop")
    if ended.is_timed_out:
        return Outcome("timeout", error=f"it was not done after {timeout:g} s and was stopped")
    heard, complaint = stdout.shown(), stderr.shown()
    try:
        said = complaint.text[:_REASON_LIMIT]
        answer = read_answer(hook.hook_event, ended.returncode, heard.text, said, is_cut=heard.is_cut)
    except AnswerError as error:
        return Outcome("error", error=str(error), exit_code=ended.returncode)
    return Outcome("error" if answer.complaint else "ok", answer, answer.complaint, ended.returncode)


async def _to_its_end(work: Coroutine[Any, Any, Ended], stop: asyncio.Future[None] | None) -> Ended | None:
    """Return the outcome of a run, None when it was stopped; a cancelled caller waits for the end of its processes."""
    task = asyncio.ensure_future(work)
    waiting: set[asyncio.Future[Any]] = {task} if stop is None else {task, stop}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    return None if task.cancelled() else task.result()


async def _run(
    argv: tuple[str, ...],
    setup: SandboxSetup,
    folder: Path,
    stdout: Output,
    stderr: Output,
    timeout: float,
) -> Ended:
    spec = setup.confine(CommandSpec(argv, folder, setup.environment))
    try:
        return await run(spec, stdout, stderr, timeout=timeout)
    except StartError as error:
        if error.step != "folder":
            raise
    return await run(replace(spec, folder=os.sep), stdout, stderr, timeout=timeout)


def _argv(hook: Hook, note: str) -> tuple[str, ...]:
    shell = next((shell for shell in _SHELLS if os.path.exists(shell)), _SHELLS[-1])
    return (shell, "-c", _LAUNCH, note, shell, hook.text)


def _write_event(facts: bytes) -> str:
    """Write the event to a file that only its owner can read, and return its path; raises OSError."""
    import tempfile

    number, path = tempfile.mkstemp(prefix="amplifier-hook-", suffix=".json")
    with os.fdopen(number, "wb") as file:
        file.write(facts)
    return path


def _remove(note: str) -> None:
    try:
        os.unlink(note)
    except OSError:
        pass  # the hook has removed it
