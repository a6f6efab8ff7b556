"""Which tools run their commands in a sandbox that works, and whether a permission mode is available in a session."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from amplifier_foundation.policy.modes import AUTO, Mode, PermissionModeError, check_place

logger = logging.getLogger(__name__)

_OTHERWISE = "use the mode accept-edits"


class SandboxedTools:
    """The tools of one session that run their commands in a sandbox that works.

    A tool says so by `async sandbox_status()`, whose result has `is_active`; any other tool counts as one without.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, bool]] = {}
        self._tools: Mapping[str, Any] = {}

    async def learn(self, coordinator: Any, details: Mapping[str, Any]) -> None:
        """Ask the tool of a call, once."""
        self._tools = coordinator.get("tools") or {}
        name = details.get("tool_name")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None or self._is_known(name, tool):
            return
        ask = getattr(tool, "sandbox_status", None)
        try:
            is_active = callable(ask) and (await ask()).is_active is True
        except Exception as error:
            logger.warning("sandbox_status() of tool '%s' failed: %s", name, error)
            is_active = False
        self._known[str(name)] = (tool, is_active)

    def includes(self, details: Mapping[str, Any]) -> bool:
        """Return whether the tool of a call is known to use a sandbox that works."""
        name = details.get("tool_name")
        tool = self._tools.get(name) if isinstance(name, str) else None
        return tool is not None and self._is_known(name, tool) and self._known[str(name)][1]

    def _is_known(self, name: Any, tool: Any) -> bool:
        """Return whether this very tool was asked: another may have taken its name."""
        return name in self._known and self._known[name][0] is tool


async def check_mode(mode: Mode, coordinator: Any, folders: Iterable[Path]) -> None:
    """Raise PermissionModeError, with reason and remedy, for a mode that is not available in a session.

    `folders` are the project and what the user added to it.
    """
    for folder in folders:
        check_place(mode, folder)
    if mode != AUTO:
        return
    from amplifier_kit.guard.sandbox.sandbox import sandbox_of

    try:
        status = await sandbox_of(coordinator).ready()
    except (ValueError, OSError) as error:
        raise PermissionModeError(f"auto mode needs the sandbox: {error}; {_OTHERWISE}") from error
    if status.status == "off":
        raise PermissionModeError(
            "auto mode runs commands without asking, which is for the sandbox alone, and `session.sandbox` is off: "
            f"remove that setting, or {_OTHERWISE}"
        )
    if not status.is_active:
        raise PermissionModeError(
            "auto mode runs commands without asking, which is for the sandbox alone, and it does not work here: "
            f"{status.reason}; `amplifier doctor` says what is missing, or {_OTHERWISE}"
        )
