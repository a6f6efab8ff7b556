"""Run the tool's commands in the session's sandbox, and say what it stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from amplifier_kit.guard.sandbox import (
    SANDBOX_BLOCKED,
    Sandbox,
    SandboxRequiredError,
    SandboxSetup,
    Status,
    sandbox_of,
    settings_of,
)
from amplifier_module_tool_bash._progress import call_of

#: Whose config can allow more.
_WHERE: Final = "the config of tool-bash"
#: Seconds that closing waits for the trial.
_CLOSING: Final = 10.0


class Box:
    """The sandbox as the tool uses it."""

    def __init__(self, coordinator: Any, tool: str, config: Any) -> None:
        """Read the settings; raises ValueError that names the key that is wrong. Nothing is tried yet."""
        self._coordinator = coordinator
        self._tool = tool
        self._config = {"sandbox": config}
        self.settings = settings_of(coordinator, self._config)
        self._sandbox: Sandbox | None = None
        self._announcing: asyncio.Task[Status] | None = None

    def announce(self) -> None:
        """Begin to find out how it stands, and to say so, once per session."""
        if self._announcing is None:
            self._announcing = asyncio.create_task(self._made().announce(self._coordinator, self._tool))

    async def prepare(self, folder: str, environment: Mapping[str, str], readable: Sequence[str]) -> SandboxSetup:
        """Return what a command in `folder` runs behind; its placeholders are to be released.

        Raises SandboxError, after saying so where the sandbox is required.
        """
        sandbox = self._made()
        self.announce()
        assert self._announcing is not None
        await asyncio.wait([self._announcing])
        # In a thread: the folders that are looked at may be on a share that hangs.
        work = asyncio.ensure_future(asyncio.to_thread(sandbox.prepare, folder, environment, readable=readable))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_give_back)
            raise

    async def refused(self, command: str, error: SandboxRequiredError) -> None:
        """Say that a command was not run."""
        await self._emit(command, "required", error.reason)

    async def remark(self, command: str, returncode: int | None, text: str) -> str:
        """Return one line about what the sandbox stopped, which is also said as an event, or nothing."""
        blocked = self._sandbox.blocked_by(returncode, text) if self._sandbox is not None else None
        if blocked is None:
            return ""
        await self._emit(command, blocked.kind, blocked.reason)
        return blocked.message(_WHERE)

    async def close(self) -> None:
        """Wait until it was said how it stands; a session that is over at once has it in its log too."""
        if self._announcing is not None:
            await asyncio.wait([self._announcing], timeout=_CLOSING)
        if self._sandbox is not None:
            self._sandbox.close()

    async def _emit(self, command: str, kind: str, reason: str) -> None:
        told = {"tool": self._tool, "command": command, "kind": kind, "reason": reason}
        await self._coordinator.hooks.emit(SANDBOX_BLOCKED, told | call_of(self._coordinator))

    def _made(self) -> Sandbox:
        # Later than the tool itself: the session's folder may not be known before.
        if self._sandbox is None:
            self._sandbox = sandbox_of(self._coordinator, self._config)
        return self._sandbox


def _give_back(work: asyncio.Future[SandboxSetup]) -> None:
    if not work.cancelled() and work.exception() is None:
        work.result().release()
