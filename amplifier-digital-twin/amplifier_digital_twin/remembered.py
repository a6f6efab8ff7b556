"""Small answers about this machine that take long to find out, each under everything that it depends on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from amplifier_kit.guard.private_files import replace_file

#: How many answers are kept; most are of boots that are over.
_KEPT: Final = 64


class Remembered:
    """Keeps answers in a folder of the user's own; what cannot be read or written is found out again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, *facts: object) -> str | None:
        """Return the answer that was kept under exactly these facts, None when there is none."""
        try:
            return self._place(facts).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    def put(self, answer: str, *facts: object) -> None:
        """Keep an answer, written aside and renamed, so that many may share the folder."""
        place = self._place(facts)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_file(place, answer.encode())
            self._forget()
        except OSError:
            return  # a full or read-only disk: the next one finds it out again

    def _forget(self) -> None:
        found = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in found[:-_KEPT]:
            path.unlink(missing_ok=True)

    def _place(self, facts: tuple[object, ...]) -> Path:
        import hashlib

        return self._folder / hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def file_facts(path: str) -> tuple[object, ...]:
    """Return what tells whether a file is another one; nothing but its path when it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return (path,)
    return (os.path.realpath(path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
