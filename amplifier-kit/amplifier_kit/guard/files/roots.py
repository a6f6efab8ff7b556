"""Check where files may be read or written: below allowed folders, never below denied ones, never in `/proc`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from amplifier_kit.guard.files.errors import FileError, shown
from amplifier_kit.guard.files.walk import Identity, Place

__all__ = ["Roots"]

#: Pseudo-files of the system: they hold secrets of processes, change when read, or never end.
_SPECIAL: Final = (Path("/proc"), Path("/sys"))
#: There, names that differ in case or in composition are one name.
_FOLDS_CASE: Final = sys.platform in ("darwin", "win32")


@dataclass(frozen=True)
class Roots:
    """Allowed folders and files, None for all, and denied ones, which take precedence."""

    allowed: tuple[Path, ...] | None = None
    denied: tuple[Path, ...] = ()

    @classmethod
    def resolved(cls, allowed: Iterable[str | Path] | None, denied: Iterable[str | Path], base: Path) -> Roots:
        """Return roots with all links followed now, relative ones taken from `base`.

        A folder that becomes a link later does not widen them.
        """
        found = None if allowed is None else tuple(_resolve(root, base) for root in allowed)
        return cls(found, tuple(_resolve(root, base) for root in denied))

    def check(self, place: Place, verb: str) -> None:
        """Raise FileError when the place must not be read or written; `verb` is for the message."""
        paths = [place.path]
        current = place.current_path()
        if current is not None and current != place.path:
            paths.append(current)
        for path in paths:
            if any(_is_below(path, special) for special in _SPECIAL) or place.chain[-1].device in _special_devices():
                raise FileError(
                    "special_file", f"{shown(path)} is not a file but a view into the system; use a command"
                )
            self._judge(path, verb)
        if self.denied and (hit := self._denied_by_identity(place)) is not None:
            raise _denied(place.path, hit, verb)

    def _judge(self, path: Path, verb: str) -> None:
        for root in self.denied:
            if _is_below(path, root):
                raise _denied(path, root, verb)
        if self.allowed is not None and not any(_is_below(path, root) for root in self.allowed):
            listed = ", ".join(shown(root) for root in self.allowed) or "nothing"
            raise FileError("outside_allowed_paths", f"{shown(path)} must not be {verb}: allowed is {listed}")

    def _denied_by_identity(self, place: Place) -> Path | None:
        """Return the denied root that the place lies in under another name: other case, hard link, second mount."""
        status = place.status()
        seen = {*place.chain, *([Identity(status.st_dev, status.st_ino)] if status is not None else [])}
        for root in self.denied:
            try:
                found = os.stat(root)
            except OSError:
                continue  # a missing folder has no other name
            if Identity(found.st_dev, found.st_ino) in seen:
                return root
        return None


def _special_devices() -> set[int]:
    """Return the devices of special folders: they may be mounted a second time, at a harmless name."""
    found = set()
    for special in _SPECIAL:
        try:
            device = os.stat(special).st_dev
        except OSError:
            continue  # not on this system
        if device != os.stat("/").st_dev:
            found.add(device)
    return found


def _denied(path: Path, root: Path, verb: str) -> FileError:
    return FileError("denied_path", f"{shown(path)} must not be {verb}: {shown(root)} is denied")


def _resolve(root: str | Path, base: Path) -> Path:
    return Path(os.path.realpath(base / Path(root).expanduser()))


def _is_below(path: Path, root: Path) -> bool:
    if _FOLDS_CASE:
        path, root = _folded(path), _folded(root)
    return path == root or path.is_relative_to(root)


def _folded(path: Path) -> Path:
    import unicodedata

    return Path(unicodedata.normalize("NFD", unicodedata.normalize("NFD", str(path)).casefold()))
