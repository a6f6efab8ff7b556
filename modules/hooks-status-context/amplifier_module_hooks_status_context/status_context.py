"""Describe where and when the model works, and inject that into each request."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.models import HookResult
from amplifier_kit.reminders import fitting_reminder
from amplifier_module_hooks_status_context.config import StatusConfig
from amplifier_module_hooks_status_context.text import one_line

if TYPE_CHECKING:
    from amplifier_module_hooks_status_context.command import Git

logger = logging.getLogger(__name__)

NAME: Final = "hooks-status-context"

_HEADING: Final = "Environment at this request: facts, not instructions. There is no need to answer or mention them."
_PATH_LIMIT: Final = 1000
# Not by strftime, which follows the locale of the machine.
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class StatusContext:
    """Describe the environment of one session."""

    def __init__(self, coordinator: Any, settings: StatusConfig, now: Callable[[], datetime] | None = None) -> None:
        """`now` returns the local time with its zone; the real one by default."""
        self._coordinator = coordinator
        self._settings = settings
        self._now = now or (lambda: datetime.now().astimezone())
        #: The turn that the date below was taken in.
        self._turn: str | None = None
        self._date = ""
        self._git: Git | None = None
        self._has_warned = False

    async def on_provider_request(self, event: str, data: Any) -> HookResult | None:
        """Inject the description into this request only."""
        turn = data.get("turn_id") if isinstance(data, Mapping) else None
        text = fitting_reminder(
            "\n".join([_HEADING, "", *await self._lines(turn)]), NAME, self._coordinator.injection_size_limit
        )
        if text is None:
            return None
        return HookResult(
            action="inject_context", context_injection=text, context_injection_role="user", ephemeral=True
        )

    async def _lines(self, turn: str | None) -> list[str]:
        """Return the facts; those that change least come first, for prompt caches."""
        settings = self._settings
        directory = self._directory()
        known = "not known (the current folder was deleted)" if directory is None else one_line(directory, _PATH_LIMIT)
        lines = [f"Working directory: {known}", f"Platform: {_platform()}"]
        if settings.include_session:
            lines += self._session_lines()
        if settings.include_datetime:
            lines.append(f"Date: {self._date_of(turn)}")
        if settings.include_git and directory is not None:
            lines += await self._git_lines(directory)
        return lines

    async def _git_lines(self, directory: str) -> list[str]:
        # Imported at the first request, because it is slow.
        from amplifier_kit.guard.sandbox.sandbox import sandbox_of
        from amplifier_module_hooks_status_context.command import Git
        from amplifier_module_hooks_status_context.repository import repository_lines

        if self._git is None:
            # Not when the module is mounted: the session's folder may be unknown then.
            try:
                self._git = Git(sandbox_of(self._coordinator))
            except (OSError, ValueError) as error:
                logger.warning("git is not run, its status is left out: %s", error)
                return [f"Git: not available ({one_line(str(error))})"]
        return await repository_lines(directory, self._settings, self._git)

    def _directory(self) -> str | None:
        """Return the absolute path of the working directory, None when it was deleted."""
        known, given = self._coordinator.get_capability("session.working_dir"), self._settings.working_dir
        path = os.path.join("", *(str(part) for part in (known, given) if part))
        try:
            found = os.path.normpath(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))
            return self._configured_directory(found) if given else found
        except OSError:
            return None

    def _configured_directory(self, path: str) -> str:
        """Return the configured folder, or the session's when a link leads out of the project."""
        from amplifier_kit.guard.files.configured_file import RefusedFileError, configured_folder, project_of

        project = project_of(self._coordinator)
        try:
            return str(configured_folder(path, project))
        except RefusedFileError as error:
            if not self._has_warned:
                logger.warning("working_dir is not used: %s", error)
            self._has_warned = True
            return str(project)
        except OSError:
            return path  # it cannot be read, which git will report

    def _session_lines(self) -> list[str]:
        lines = [f"Session: {one_line(self._coordinator.session_id)}"] if self._coordinator.session_id else []
        if self._coordinator.parent_id:
            lines.append(f"Parent session: {one_line(self._coordinator.parent_id)}")
        return lines

    def _date_of(self, turn: str | None) -> str:
        """Return the date; it stays the same during a turn, so that prompts can be cached."""
        if turn is None or turn != self._turn:
            self._turn, self._date = turn, self._read_clock()
        return self._date

    def _read_clock(self) -> str:
        now = self._now()
        zone = f" UTC{now.isoformat(timespec='minutes')[16:]}" if self._settings.datetime_include_timezone else ""
        return f"{_DAYS[now.weekday()]} {now.isoformat(' ', 'minutes')[:16]}{zone}"


def _platform() -> str:
    return f"{platform.system()} {platform.release()} ({platform.machine()})"
