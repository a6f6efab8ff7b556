"""The hooks of one session: read at its first event or taken over from the parent session, and their environment."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_core.session import get_session
from amplifier_kit.awaitable import plain_result
from amplifier_kit.guard.private_files import read_regular
from amplifier_kit.struct import FrozenStruct
from amplifier_module_hook_shell.config import ShellHooksConfig
from amplifier_module_hook_shell.hook_events import HookEvent
from amplifier_module_hook_shell.hook_files import FoundHooks, Hook, Trust
from amplifier_module_hook_shell.reports import NAME, Reports

# --- environment ---

#: One line of the file that hooks may leave variables in for the hooks after them.
_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_FILE_LIMIT: Final = 64 * 1024


class HookEnvironment:
    """What the hooks of one session run in; `close` removes what was made for it."""

    def __init__(self, project: Path, folder: Path, session_id: str, pass_env: tuple[str, ...]) -> None:
        """Run hooks of `project` in `folder`, which is another one in a child that works elsewhere."""
        self.project = project
        self.folder = folder
        self._session_id = session_id
        self._pass_env = pass_env
        #: By whether the project brings the hooks that write it.
        self._env_files: dict[bool, str] = {}

    def variables(self, hook: Hook) -> dict[str, str]:
        """Return the whole environment of a hook; raises OSError when no temporary file can be made."""
        from amplifier_kit.guard.processes.programs import command_environment

        given, _ = command_environment(self._pass_env)
        folder = str(hook.source.folder or self.project)
        known = {
            "PROJECT_DIR": str(self.project),
            "HOOKS_DIR": folder,
            "SESSION_ID": self._session_id,
            "ENV_FILE": self.env_file(hook),
        }
        ours = {f"{prefix}_{name}": value for prefix in ("AMPLIFIER", "CLAUDE") for name, value in known.items()}
        ours |= {"AMPLIFIER_HOOK_EVENT": hook.hook_event.name, "CLAUDE_PLUGIN_ROOT": folder}
        # What lies in the project, commands can change: what its hooks leave decides nothing outside of the sandbox.
        left = self._left(of_project=False)
        if hook.source.is_projects:
            left |= self._left(of_project=True)
        return given | left | ours

    def close(self) -> None:
        """Remove the files for variables."""
        while self._env_files:
            Path(self._env_files.popitem()[1]).unlink(missing_ok=True)

    def env_file(self, hook: Hook) -> str:
        """Return the file in which hooks like this one leave variables; raises OSError when it cannot be made."""
        return self._env_file(of_project=hook.source.is_projects)

    def _env_file(self, *, of_project: bool) -> str:
        if of_project not in self._env_files:
            import tempfile

            number, self._env_files[of_project] = tempfile.mkstemp(prefix="amplifier-hook-", suffix=".env")
            os.close(number)
        return self._env_files[of_project]

    def _left(self, *, of_project: bool) -> dict[str, str]:
        """Return the variables that earlier hooks have left; lines that set none are passed over."""
        if of_project not in self._env_files:
            return {}
        import shlex

        try:
            lines = read_regular(self._env_files[of_project], _FILE_LIMIT).decode("utf-8", "replace").splitlines()
        except OSError:
            return {}  # a hook has removed it, or put something else there
        found = {}
        for line in lines:
            matched = _LINE.fullmatch(line.strip())
            if matched is None or "\0" in line:
                continue
            try:
                words = shlex.split(matched[2])
            except ValueError:
                continue  # a quote that is never closed
            found[matched[1]] = " ".join(words)
        return found


# --- hooks ---

logger = logging.getLogger(__name__)

#: The capability by which a child finds the hooks of its parent.
CAPABILITY: Final = "hook-shell.library"


class LoadedHooks(FrozenStruct):
    """What hooks there are, and what they run in."""

    hooks: dict[str, list[Hook]]
    hook_environment: HookEnvironment
    #: Those that were read from files.
    filed: list[Hook]

    def of(self, hook_event: HookEvent) -> list[Hook]:
        """Return the hooks for an event, in the order in which they run."""
        return self.hooks.get(hook_event.name, [])


class SessionHooks:
    """The hooks of one session; `close` removes what was made for them."""

    def __init__(
        self, coordinator: Any, settings: ShellHooksConfig, reports: Reports, config: Mapping[str, Any] | None = None
    ) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._config = config
        self._reports = reports
        self._opening = asyncio.Lock()
        self._loaded: LoadedHooks | None = None

    async def loaded(self) -> LoadedHooks:
        """Return the hooks, read and reported once; raises what keeps them from being read."""
        async with self._opening:
            if self._loaded is None:
                self._loaded = await self._open()
            return self._loaded

    def close(self) -> None:
        """Remove the files of the session's hooks."""
        if self._loaded is not None:
            self._loaded.hook_environment.close()

    async def _open(self) -> LoadedHooks:
        folder, trust = self._folder(), self._trust()
        parent = await self._of_parent()
        filed: list[Hook] = []
        if self._coordinator.get_capability(CAPABILITY) is not self:
            found, project = (
                FoundHooks.of_config(self._settings, trust),
                folder,
            )  # mounted twice: the first has the files
        elif parent is not None:
            # What the parent has written meanwhile, or keeps in a folder that it made up, is not for its child either.
            found = FoundHooks.of_config(self._settings, trust)
            filed, project = parent.filed, parent.hook_environment.project
        else:
            home = self._coordinator.get_capability("amplifier.home")
            home_folder = None if home is None else Path(home)
            found = await asyncio.to_thread(FoundHooks.read, self._settings, folder, home_folder, trust)
            filed, project = found.filed, folder
        await self._reports.loaded(found)
        session_id = str(self._coordinator.session_id)
        hook_environment = HookEnvironment(project, folder, session_id, self._settings.pass_env)
        return LoadedHooks(_by_event([*found.configured, *filed]), hook_environment, filed)

    async def _of_parent(self) -> LoadedHooks | None:
        """Return the hooks of the session that started this one, None when it has none of ours in this process."""
        parent_id: Any = getattr(self._coordinator, "parent_id", None)
        try:
            session_hooks = get_session(parent_id).coordinator.get_capability(CAPABILITY)
        except (LookupError, TypeError):
            return None
        return await session_hooks.loaded() if isinstance(session_hooks, SessionHooks) else None

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


def _by_event(hooks: Iterable[Hook]) -> dict[str, list[Hook]]:
    found: dict[str, list[Hook]] = {}
    for hook in hooks:
        found.setdefault(hook.hook_event.name, []).append(hook)
    return found
