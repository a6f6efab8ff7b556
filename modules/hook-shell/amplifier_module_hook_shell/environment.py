"""Give hooks their environment: ours without secrets, and what they need to know of the session."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from amplifier_module_hook_shell.entry import Hook
from amplifier_module_hook_shell.regular_file import read_plain

#: One line of the file that hooks may leave variables in for the hooks after them.
_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_FILE_LIMIT: Final = 64 * 1024


class Surroundings:
    """What the hooks of one session run in; `close` removes what was made for it."""

    def __init__(self, project: Path, folder: Path, session_id: str, pass_env: tuple[str, ...]) -> None:
        """Run hooks of `project` in `folder`, which is another one in a child that works elsewhere."""
        self.project = project
        self.folder = folder
        self._session_id = session_id
        self._pass_env = pass_env
        #: By whether the project brings the hooks that write it.
        self._env_files: dict[bool, str] = {}

    def environment(self, hook: Hook) -> dict[str, str]:
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
        ours |= {"AMPLIFIER_HOOK_EVENT": hook.moment.name, "CLAUDE_PLUGIN_ROOT": folder}
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
            lines = read_plain(self._env_files[of_project], _FILE_LIMIT).decode("utf-8", "replace").splitlines()
        except (OSError, ValueError):
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
