"""Run the tool's commands in the session's sandbox, and report what it blocked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from amplifier_kit.engine.current_call import call_id
from amplifier_kit.guard.sandbox.errors import SandboxRequiredError
from amplifier_kit.guard.sandbox.sandbox import SANDBOX_BLOCKED, Sandbox, SandboxSetup, Status, sandbox_of, settings_of
from amplifier_kit.threads import obtain

#: The config that can allow more.
_WHERE: Final = "the config of tool-bash"
#: Seconds that closing waits for the trial run of bubblewrap.
_CLOSE_TIMEOUT: Final = 10.0


class BashSandbox:
    """The sandbox as the tool uses it."""

    def __init__(self, coordinator: Any, tool: str, config: Any) -> None:
        """Read the settings; raises ValueError that names the wrong key. Nothing is tested yet."""
        self._coordinator = coordinator
        self._tool = tool
        self._config = {"sandbox": config}
        self.settings = settings_of(coordinator, self._config)
        self._sandbox: Sandbox | None = None
        self._announcing: asyncio.Task[Status] | None = None

    def announce(self) -> None:
        """Start to test the sandbox and to report its status, once per session."""
        if self._announcing is None:
            self._announcing = asyncio.create_task(self._get_sandbox().announce(self._coordinator, self._tool))

    async def status(self) -> Status:
        """Return whether commands run in the sandbox."""
        return await self._get_sandbox().ready()

    async def prepare(self, folder: str, environment: Mapping[str, str], readable: Sequence[str]) -> SandboxSetup:
        """Return the setup of a command in `folder`, which the caller releases; raises SandboxError."""
        sandbox = self._get_sandbox()
        self.announce()
        assert self._announcing is not None
        await asyncio.wait([self._announcing])
        # In a thread: the folders may be on a network share that hangs.
        return await obtain(partial(sandbox.prepare, folder, environment, readable=readable), SandboxSetup.release)

    async def refused(self, command: str, error: SandboxRequiredError) -> None:
        """Report that a command was not run, as the sandbox is required and not available."""
        await self._emit(command, "required", error.reason)

    async def remark(self, command: str, returncode: int | None, text: str) -> str:
        """Report what the sandbox blocked and return it as one line; empty when it blocked nothing."""
        blocked = self._sandbox.blocked_by(returncode, text) if self._sandbox is not None else None
        if blocked is None:
            return ""
        await self._emit(command, blocked.kind, blocked.reason)
        return blocked.message(_WHERE)

    async def close(self) -> None:
        """Wait for the status report, so that it is in the log of a session that ends at once, too."""
        if self._announcing is not None:
            await asyncio.wait([self._announcing], timeout=_CLOSE_TIMEOUT)
        if self._sandbox is not None:
            self._sandbox.close()

    async def _emit(self, command: str, kind: str, reason: str) -> None:
        data = {"tool": self._tool, "command": command, "kind": kind, "reason": reason}
        await self._coordinator.hooks.emit(SANDBOX_BLOCKED, data | call_id(self._coordinator))

    def _get_sandbox(self) -> Sandbox:
        # On first use: the session's folder may not be known when the tool is mounted.
        if self._sandbox is None:
            self._sandbox = sandbox_of(self._coordinator, self._config)
        return self._sandbox
