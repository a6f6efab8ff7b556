"""List the files of a project for completion: quickly, and never all of a huge one."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from pathlib import Path
from typing import Final

_MOST: Final = 5_000
_SECONDS: Final = 0.25
#: How long a list is good for: files come and go while one types, but not that fast.
_FRESH: Final = 5.0
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})
#: What a mention can name.
_MENTIONABLE: Final = re.compile(r"[A-Za-z0-9_./~-]+")


class ProjectFiles:
    """Know the files of one project, those near its root first."""

    def __init__(self, root: Path, *, most: int = _MOST, seconds: float = _SECONDS) -> None:
        self._root = root
        self._most = most
        self._seconds = seconds
        self._known: list[str] = []
        self._read_at: float | None = None

    def matching(self, typed: str, limit: int = 50) -> list[str]:
        """Return paths, relative to the project, that may be meant: those that begin so, then those that have it."""
        here = self._beside(typed)
        if self._read_at is None or time.monotonic() - self._read_at > _FRESH:
            self._known = self._walk()
            self._read_at = time.monotonic()
        wanted = typed.casefold()
        begins = [path for path in self._known if path.casefold().startswith(wanted)]
        inside = [path for path in self._known if wanted and wanted in path.casefold()]
        return list(dict.fromkeys([*here, *begins, *inside]))[:limit]

    def _beside(self, typed: str) -> list[str]:
        """Return what lies in the folder that is typed already, however deep it is."""
        folder, _, beginning = typed.rpartition("/")
        if not folder or ".." in folder.split("/") or folder.startswith(("/", "~")):
            return []
        entries = _entries(self._root / folder, f"{folder}/", with_hidden=beginning.startswith("."))
        start = len(folder) + 1
        return [path for path, _ in entries if path[start:].casefold().startswith(beginning.casefold())]

    def _walk(self) -> list[str]:
        """Return the files breadth first, until there are enough or it took long enough."""
        found: list[str] = []
        todo: deque[tuple[Path, str]] = deque([(self._root, "")])
        until = time.monotonic() + self._seconds
        while todo and len(found) < self._most and time.monotonic() < until:
            folder, prefix = todo.popleft()
            for path, is_folder in _entries(folder, prefix):
                found.append(path)
                if is_folder:
                    todo.append((self._root / path, path))
        return found[: self._most]


def _entries(folder: Path, prefix: str, *, with_hidden: bool = False) -> list[tuple[str, bool]]:
    """Return what a folder holds that a mention can name, sorted; folders end in a slash, links are not followed."""
    entries: list[tuple[str, bool]] = []
    try:
        with os.scandir(folder) as scanned:
            for entry in scanned:
                if (entry.name.startswith(".") and not with_hidden) or not _MENTIONABLE.fullmatch(entry.name):
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder or entry.name not in _SKIPPED:
                    entries.append((f"{prefix}{entry.name}{'/' if is_folder else ''}", is_folder))
    except OSError:
        return []  # a folder that cannot be read has nothing to offer
    return sorted(entries)
