"""Ask the session for what only the tool can see: where a redirect leads, which file is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amplifier_kit.guard.authorization import authorize
from amplifier_module_tool_web.failure import Failure
from amplifier_module_tool_web.progress import call_id


class Permission:
    """Asks on behalf of one tool call."""

    def __init__(self, coordinator: Any, tool_name: str, tool_input: Mapping[str, Any]) -> None:
        self._coordinator = coordinator
        self._details = {"tool_name": tool_name, "tool_input": dict(tool_input), **call_id(coordinator)}

    async def need(self, action: str, what: str, **seen: str) -> None:
        """Return when the action is granted; raise Failure when not."""
        permission = await authorize(self._coordinator, action, {**self._details, **seen})
        if not permission.granted:
            raise Failure("denied", f"{what} is not allowed: {permission.reason}")
