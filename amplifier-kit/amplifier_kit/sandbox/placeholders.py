"""Stand in for what must not come into being in a project while a command runs there."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from amplifier_kit.sandbox.errors import SandboxError

logger = logging.getLogger(__name__)

_counts: Final[dict[str, int]] = {}
_counting: Final = threading.Lock()

#: Seconds to wait for another process that looks whether a folder is still needed; it needs a moment.
_PATIENCE: Final = 5.0
_PAUSE: Final = 0.01
#: A file by its name: a folder there is what a program left that was killed.
_FILES: Final = frozenset((".mcp.json",))
#: The time of change, in nanoseconds, by which a file that stands in is known from one of the user's.
_MARK: Final = 1_000_000_007


class Placeholder(NamedTuple):
    """Something that stands at a path: a file with some content, or an empty folder when that is None."""

    path: str
    content: bytes | None = None
    #: The folder that is locked as long as a file is needed; a folder is locked itself.
    lock: str = ""


def is_placeholder(path: str) -> bool:
    """Tell whether what is there only stands in for something, by this process, another or one that was killed."""
    if path in _counts:
        return True
    if os.path.basename(path) in _FILES and os.path.isdir(path):
        return True
    return os.path.isfile(path) and os.stat(path).st_mtime_ns == _MARK


class Placeholders:
    """Empty folders and files that stand where a command must not make anything, as long as one that needs them runs.

    Something can be mounted only where something is. They are made when they are asked for, by whoever puts up the
    walls, and removed by the last who gives them back.
    """

    def __init__(self, wanted: Iterable[Placeholder], unwanted: Iterable[str] = (), empty: Iterable[str] = ()) -> None:
        """Take them; whoever does gives them back by `release`.

        `unwanted` are files that were not there, and for which nothing can stand in. `empty` are folders that may
        stand in for another process: what is removed there is gone here too, with the mount that is on it. Raises
        SandboxError when another program does not let go of one.
        """
        self._taken: list[Placeholder] = []
        self._locks: list[int] = []
        self._unwanted: list[str] = []
        made = list(wanted)
        folders = [one.lock or one.path for one in made]
        try:
            for path in dict.fromkeys((*folders, *empty)):
                if (lock := _held(path)) is not None:
                    self._locks.append(lock)
            for one in made:
                if one.content is not None:
                    _make_file(one.path, one.content)
        except SandboxError:
            self.release()
            raise
        self._taken, self._unwanted = made, list(unwanted)
        with _counting:
            for one in made:
                _counts[one.path] = _counts.get(one.path, 0) + 1

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
            while self._taken:
                one = self._taken.pop()
                _counts[one.path] -= 1
                if not _counts[one.path]:
                    del _counts[one.path]
                    _remove(one)


def _held(path: str) -> int | None:
    """Make a folder unless it is there, and say to other processes that it is needed; None when it cannot be.

    Raises SandboxError when another program holds it: without the lock it could be taken away.
    """
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        try:
            os.makedirs(path, exist_ok=True)
            number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        if _is_locked(number) and _is_at(number, path):
            return number
        os.close(number)  # it was removed meanwhile, or is looked at
        time.sleep(_PAUSE)
    raise SandboxError(f"{path} cannot be guarded: another program has locked it. End that program")


def _is_locked(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(number: int, path: str) -> bool:
    """Tell whether an open folder is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(number), os.stat(path))
    except OSError:
        return False


def _make_file(path: str, content: bytes) -> None:
    """Make a file that stands in, unless there is one; raises SandboxError."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return
    except OSError as error:
        raise SandboxError(f"{path} cannot be guarded: {error.strerror or error}") from error
    with open(number, "wb") as file:
        file.write(content)
        file.flush()
        os.utime(file.fileno(), ns=(_MARK, _MARK))


def _remove(placeholder: Placeholder) -> None:
    """Remove what stands in, unless another process needs it, or it has become something else."""
    path, content, lock = placeholder
    try:
        number = os.open(lock or path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # never made
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if content is None:
            os.rmdir(path)
        elif is_placeholder(path):
            os.unlink(path)
    except OSError:
        pass  # it is needed, or somebody has put something there: then it is theirs
    finally:
        os.close(number)
