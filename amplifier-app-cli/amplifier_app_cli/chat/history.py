"""Remember what was typed in a project, in a file that only its owner reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from prompt_toolkit.history import FileHistory

from amplifier_app_cli.ui.say import say
from amplifier_kit.guard.private_files import append, make_private, open_private


class ProjectHistory(FileHistory):
    """Keep inputs in `path`, without secrets. A file that cannot be used costs no input; that is told once."""

    def __init__(self, path: Path, scrub: Callable[[str], str]) -> None:
        super().__init__(str(path))
        self._path = path
        self._scrub = scrub
        self._is_told = False
        #: What was stored last: the same input twice in a row is remembered once.
        self._last: str | None = None

    def load_history_strings(self) -> list[str]:
        """Return what is remembered, the newest first."""
        try:
            loaded = list(super().load_history_strings())
        except OSError as error:
            self._tell(error)
            return []
        self._last = loaded[0] if loaded else None
        return loaded

    def append_string(self, string: str) -> None:
        """Remember an input."""
        kept = self._scrub(string)
        if kept != self._last:
            self._last = kept
            super().append_string(kept)

    def store_string(self, string: str) -> None:
        """Write an input down; the file is made for its owner alone."""
        try:
            make_private(self._path.parent)
            lines = "".join(f"+{line}\n" for line in string.split("\n"))
            descriptor = open_private(self._path)
            try:
                os.fchmod(descriptor, 0o600)  # one that another program made may be open to all
                append(descriptor, f"\n# {datetime.now()}\n{lines}".encode("utf-8", "surrogateescape"))
            finally:
                os.close(descriptor)
        except OSError as error:
            self._tell(error)

    def _tell(self, error: OSError) -> None:
        if not self._is_told:
            self._is_told = True
            say(f"amplifier: {self._path}: the history cannot be kept: {error.strerror or error}")
