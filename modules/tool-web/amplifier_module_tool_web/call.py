"""What one tool call needs of its session: permissions, progress, and failures in the form in which tools fail."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from amplifier_core import ToolResult
from amplifier_kit.engine.current_call import TOOL_PROGRESS, call_id

#: Seconds before the first `tool:progress` of a download, and between two.
_PAUSE: Final = 0.5


class Failure(Exception):
    """A fetch or search failed; the text says what, why and what to do next, `code` is for programs."""

    def __init__(self, code: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.code = code
        self.facts = facts

    def as_result(self) -> ToolResult:
        """Return the failure in the form in which tools fail."""
        message = str(self)
        return ToolResult(success=False, output=message, error={"message": message, "code": self.code, **self.facts})


class Call:
    """One call of a tool: asks for permissions on its behalf, and reports its progress."""

    def __init__(self, coordinator: Any, tool_name: str, tool_input: Mapping[str, Any]) -> None:
        self._coordinator = coordinator
        self._names = {"tool_name": tool_name, **call_id(coordinator)}
        self._input = dict(tool_input)
        self._next = asyncio.get_running_loop().time() + _PAUSE

    async def need(self, action: str, what: str, **seen: str) -> None:
        """Return when the action is granted; raise Failure when it is not."""
        from amplifier_kit.guard.authorization import authorize

        permission = await authorize(self._coordinator, action, {**self._names, "tool_input": self._input, **seen})
        if not permission.granted:
            raise Failure("denied", f"{what} is not allowed: {permission.reason}")

    async def report(self, url: str, arrived: int, announced: int | None) -> None:
        """Emit `tool:progress` with the bytes so far and those announced, at most twice a second."""
        now = asyncio.get_running_loop().time()
        hooks = getattr(self._coordinator, "hooks", None)
        if now < self._next or hooks is None:
            return
        self._next = now + _PAUSE
        of = f" of {announced:,}" if announced else ""
        message = f"{url}: {arrived:,}{of} bytes"
        await hooks.emit(TOOL_PROGRESS, {**self._names, "message": message, "bytes": arrived, "total_bytes": announced})
