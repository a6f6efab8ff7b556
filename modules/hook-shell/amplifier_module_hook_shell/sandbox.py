"""Decide which hooks run in the sandbox: those of the project do, those of the user do not.

A hook of the project runs files of the project, which commands of the session can change: outside of the sandbox it
would be their way out. A hook of the user, or of a config that the project did not influence, may do what the user
may; but its programs are not looked up in folders that commands can write to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amplifier_kit.guard.processes.programs import host_environment
from amplifier_kit.guard.sandbox.sandbox import Sandbox, SandboxSetup, sandbox_of
from amplifier_module_hook_shell.entry import Hook


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
        work = asyncio.ensure_future(asyncio.to_thread(self._setup, hook, project, folder, environment, note, env_file))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_release)
            raise

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


def _release(work: asyncio.Future[SandboxSetup]) -> None:
    if not work.cancelled() and work.exception() is None:
        work.result().release()
