"""Hold the hooks of one session: read at its first event, or taken over from the session that started it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_core.session import get_session
from amplifier_kit.awaitable import plain_result
from amplifier_kit.struct import FrozenStruct
from amplifier_module_hook_shell.config import ShellHooksConfig
from amplifier_module_hook_shell.entry import Hook
from amplifier_module_hook_shell.environment import Surroundings
from amplifier_module_hook_shell.hook_events import Moment
from amplifier_module_hook_shell.hook_files import Shelf, Trust
from amplifier_module_hook_shell.reports import NAME, Reports

logger = logging.getLogger(__name__)

#: The capability by which a child finds the hooks of its parent.
CAPABILITY: Final = "hook-shell.library"


class Opened(FrozenStruct):
    """What hooks there are, and what they run in."""

    hooks: dict[str, list[Hook]]
    surroundings: Surroundings
    #: Those that were read from files.
    filed: list[Hook]

    def of(self, moment: Moment) -> list[Hook]:
        """Return the hooks of a moment, in the order in which they run."""
        return self.hooks.get(moment.name, [])


class Library:
    """The hooks of one session; `close` removes what was made for them."""

    def __init__(
        self, coordinator: Any, settings: ShellHooksConfig, reports: Reports, config: Mapping[str, Any] | None = None
    ) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._config = config
        self._reports = reports
        self._opening = asyncio.Lock()
        self._opened: Opened | None = None

    async def opened(self) -> Opened:
        """Return the hooks, read and reported once; raises what keeps them from being read."""
        async with self._opening:
            if self._opened is None:
                self._opened = await self._open()
            return self._opened

    def close(self) -> None:
        """Remove the files of the session's hooks."""
        if self._opened is not None:
            self._opened.surroundings.close()

    async def _open(self) -> Opened:
        folder, trust = self._folder(), self._trust()
        parent = await self._of_parent()
        filed: list[Hook] = []
        if self._coordinator.get_capability(CAPABILITY) is not self:
            found, project = Shelf.of_config(self._settings, trust), folder  # mounted twice: the first has the files
        elif parent is not None:
            # What the parent has written meanwhile, or keeps in a folder that it made up, is not for its child either.
            found = Shelf.of_config(self._settings, trust)
            filed, project = parent.filed, parent.surroundings.project
        else:
            home = self._coordinator.get_capability("amplifier.home")
            home_folder = None if home is None else Path(home)
            found = await asyncio.to_thread(Shelf.read, self._settings, folder, home_folder, trust)
            filed, project = found.filed, folder
        await self._reports.opened(found)
        session_id = str(self._coordinator.session_id)
        surroundings = Surroundings(project, folder, session_id, self._settings.pass_env)
        return Opened(_by_moment([*found.configured, *filed]), surroundings, filed)

    async def _of_parent(self) -> Opened | None:
        """Return the hooks of the session that started this one, None when it has none of ours in this process."""
        parent_id: Any = getattr(self._coordinator, "parent_id", None)
        try:
            library = get_session(parent_id).coordinator.get_capability(CAPABILITY)
        except (LookupError, TypeError):
            return None
        return await library.opened() if isinstance(library, Library) else None

    def _folder(self) -> Path:
        known = self._coordinator.get_capability("session.working_dir")
        # A project that names another folder would have the sandbox of its hooks opened there.
        if known is None or not self._is_config_of_project():
            known = self._settings.working_dir or known
        try:
            return Path(known).expanduser().absolute() if known else Path.cwd()
        except OSError:
            return Path("/")  # the folder we were started in is gone

    def _trust(self) -> Trust:
        """Ask whose hooks may run. Without an app that knows of trust, the config is the app's own."""
        is_known = self._coordinator.get_capability("project.is_trusted") is not None
        project = self._said("project.is_trusted")
        # Mounted twice, as in a child whose agent configures hooks, one config may be trusted and the other not.
        is_ours = self._said("plan.is_trusted", NAME) or self._said("plan.is_hook_trusted", NAME, self._config)
        return Trust(project, not is_known or project or is_ours, self._is_config_of_project())

    def _is_config_of_project(self) -> bool:
        """Tell whether the project may have had a say in the config: where an app knows of trust, it says if not."""
        is_known = self._coordinator.get_capability("project.is_trusted") is not None
        return is_known and not self._said("plan.is_hook_of_user", NAME, self._config)

    def _said(self, capability: str, *arguments: Any) -> bool:
        ask = self._coordinator.get_capability(capability)
        try:
            return callable(ask) and plain_result(ask(*arguments)) is True
        except Exception as error:
            logger.error("hook-shell: %s failed: %r", capability, error, exc_info=error)
            return False


def _by_moment(hooks: Iterable[Hook]) -> dict[str, list[Hook]]:
    found: dict[str, list[Hook]] = {}
    for hook in hooks:
        found.setdefault(hook.moment.name, []).append(hook)
    return found
