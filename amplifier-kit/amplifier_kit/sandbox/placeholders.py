"""Stand in for what must not come into being in a project while a command runs there."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Iterable
from typing import Final

logger = logging.getLogger(__name__)

_counts: Final[dict[str, int]] = {}
_counting: Final = threading.Lock()


#: A file by its name: a folder there is what a program left that was killed.
_FILES: Final = frozenset((".mcp.json",))


def is_placeholder(path: str) -> bool:
    """Tell whether what is there only stands in for something, by this process or one that was killed."""
    if path in _counts:
        return True
    return os.path.basename(path) in _FILES and os.path.isdir(path)


class Placeholders:
    """Empty folders that stand where a command must not make anything, as long as one of those who need them runs.

    Something can be mounted only where something is. They are made when they are asked for, by whoever puts up the
    walls, and removed by the last who gives them back.
    """

    def __init__(self, paths: Iterable[str], unwanted: Iterable[str] = (), empty: Iterable[str] = ()) -> None:
        """Take them; whoever does gives them back by `release`.

        `unwanted` are files that were not there, and for which nothing can stand in. `empty` are folders that may
        stand in for another process: what is removed there is gone here too, with the mount that is on it.
        """
        self._paths = list(paths)
        self._locks = [lock for path in (*self._paths, *empty) if (lock := _held(path)) is not None]
        self._unwanted = list(unwanted)
        with _counting:
            for path in self._paths:
                _counts[path] = _counts.get(path, 0) + 1

    def release(self) -> None:
        """Give them back; those that nobody needs any more, and that are still empty, are gone, as is the unwanted."""
        while self._unwanted:
            path = self._unwanted.pop()
            try:
                os.unlink(path)
            except OSError:
                continue  # it has not been made
            logger.warning("a command made %s, which decides what git runs: it was removed", path)
        while self._locks:
            os.close(self._locks.pop())
        with _counting:
            while self._paths:
                path = self._paths.pop()
                _counts[path] -= 1
                if not _counts[path]:
                    del _counts[path]
                    _remove(path)


def _held(path: str) -> int | None:
    """Make a folder unless it is there, and say to other processes that it is needed; None when it cannot be."""
    try:
        while True:
            os.makedirs(path, exist_ok=True)
            number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(number, fcntl.LOCK_SH)
            if os.path.exists(path) and os.path.samestat(os.fstat(number), os.stat(path)):
                return number
            os.close(number)  # it was removed meanwhile
    except OSError:
        return None


def _remove(path: str) -> None:
    """Remove a folder that stands in, unless another process needs it, or there is something in it."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # never made
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rmdir(path)
    except OSError:
        pass  # it is needed, or somebody has put something there: then it is theirs
    finally:
        os.close(number)
