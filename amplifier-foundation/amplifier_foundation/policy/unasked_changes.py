"""What commands changed unasked, in `auto` mode, of the files that other programs run or obey by themselves.

The mode asks for calls that name such a file. A program in the sandbox can write one that no call names, and the
sandbox cannot keep them: `git checkout` replaces many of them rightly. So their state before and after a turn is
compared, and what changed is reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from amplifier_foundation.policy.modes import RUN_BY_OTHERS

#: Of git's own folder the sandbox keeps what is run; the rest of it changes all the time.
_KEPT: Final = ".git"
#: How many files of a folder are looked at.
_MOST: Final = 2_000

#: What a file was: its kind and mode, size, inode, and time of change, and the same of what a link leads to.
State = tuple[int, ...]


def states(folders: Iterable[Path]) -> dict[Path, State]:
    """Return the state of every such file and folder at the top of these folders, by its path."""
    found = {}
    for folder in folders:
        for name in RUN_BY_OTHERS:
            for path in folder.glob(name) if name != _KEPT else ():
                for each in (path, *_below(path)):
                    found[each] = _state(each)
    return found


def changes(before: dict[Path, State], after: dict[Path, State]) -> list[Path]:
    """Return what was made, changed or removed, sorted."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder; links are not followed."""
    count = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            count += 1
            if count > _MOST:
                return
            yield Path(parent, name)


def _state(path: Path) -> State:
    found: list[int] = []
    for follow in (False, True):
        try:
            status = os.stat(path, follow_symlinks=follow)
        except OSError:  # gone meanwhile, or a link that leads nowhere
            continue
        is_folder = os.path.isdir(path)  # the time of a folder changes with what is in it, which is looked at itself
        # The time of modification can be set back, this one cannot.
        found += [status.st_mode, status.st_ino, *(() if is_folder else (status.st_size, status.st_ctime_ns))]
    return tuple(found)
