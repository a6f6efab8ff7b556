"""Give hooks their environment: ours without secrets, and what they need to know of the session."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from amplifier_module_hook_shell._entry import Hook
from amplifier_module_hook_shell._plain_file import read_plain

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
        self._env_file: str | None = None

    def environment(self, hook: Hook) -> dict[str, str]:
        """Return the whole environment of a hook; raises OSError when no temporary file can be made."""
        from amplifier_kit.processes import command_environment

        given, _ = command_environment(self._pass_env)
        folder = str(hook.source.folder or self.project)
        known = {
            "PROJECT_DIR": str(self.project),
            "HOOKS_DIR": folder,
            "SESSION_ID": self._session_id,
            "ENV_FILE": self.env_file(),
        }
        ours = {f"{prefix}_{name}": value for prefix in ("AMPLIFIER", "CLAUDE") for name, value in known.items()}
        ours |= {"AMPLIFIER_HOOK_EVENT": hook.moment.name, "CLAUDE_PLUGIN_ROOT": folder}
        return given | self._left() | ours

    def close(self) -> None:
        """Remove the file for variables."""
        if self._env_file is not None:
            Path(self._env_file).unlink(missing_ok=True)
            self._env_file = None

    def env_file(self) -> str:
        """Return the file in which hooks leave variables; raises OSError when it cannot be made."""
        if self._env_file is None:
            import tempfile

            number, self._env_file = tempfile.mkstemp(prefix="amplifier-hook-", suffix=".env")
            os.close(number)
        return self._env_file

    def _left(self) -> dict[str, str]:
        """Return the variables that earlier hooks have left; lines that set none are passed over."""
        import shlex

        try:
            lines = read_plain(self.env_file(), _FILE_LIMIT).decode("utf-8", "replace").splitlines()
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
