"""Ask the session for what only the tool can see: where a redirect leads, which file is written."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from amplifier_module_tool_web.failure import Failure
from amplifier_module_tool_web.progress import call_id

logger = logging.getLogger(__name__)


class Permission:
    """Asks on behalf of one tool call. A kernel without policies has nobody to ask: the config's own lists decide."""

    def __init__(self, coordinator: Any, tool_name: str, tool_input: Mapping[str, Any]) -> None:
        self._ask = getattr(coordinator, "authorize", None)
        self._details = {"tool_name": tool_name, "tool_input": dict(tool_input), **call_id(coordinator)}

    async def need(self, action: str, what: str, **seen: str) -> None:
        """Return when the action is granted; raise Failure when not, and when the question fails."""
        if self._ask is None:
            return
        try:
            answer = await self._ask(action, {**self._details, **seen})
            is_granted, reason = answer.granted is True, str(answer.reason)
        except Exception as error:
            logger.error("tool-web: asking for %s failed: %s", action, error, exc_info=error)
            is_granted, reason = False, f"the question failed: {error}"
        if not is_granted:
            raise Failure("denied", f"{what} is not allowed: {reason}")
