"""Stand in for what must not come into being in a project while a command runs there."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import threading
import time
from collections.abc import Iterable
from typing import BinaryIO, Final, NamedTuple

from amplifier_kit.guard.control_files import StandIn
from amplifier_kit.guard.sandbox.errors import SandboxError

logger = logging.getLogger(__name__)

_counts: Final[dict[str, int]] = {}
_counting: Final = threading.Lock()
#: How many commands that still run must not have made a file.
_unwanted: Final[dict[str, int]] = {}

#: Seconds to wait for another process that looks whether a folder is still needed; it needs a moment.
_PATIENCE: Final = 5.0
_PAUSE: Final = 0.01
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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
    #: The writable folder that all of it lies in. Links below are not followed: a command may have put them there.
    root: str = "/"


def is_placeholder(path: str, stand_in: StandIn | None) -> bool:
    """Tell whether what is there only stands in for something, by this process, another or one that was killed.

    `stand_in` is what would stand there: anything else is the user's.
    """
    if stand_in is None:
        return False
    if path in _counts:
        return True
    if stand_in.content is None:
        return os.path.basename(path) in _FILES and os.path.isdir(path)
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with open(number, "rb") as file:
        return _is_stand_in(file, stand_in.content)


def is_unwanted(path: str) -> bool:
    """Tell whether a file was not there before a command that still runs: if it is there now, it will be removed."""
    return path in _unwanted


class Placeholders:
    """Empty folders and files that stand where a command must not make anything, as long as one that needs them runs.

    Something can be mounted only where something is. They are made when they are asked for, by whoever puts up the
    walls, and removed by the last who gives them back.
    """

    def __init__(
        self, wanted: Iterable[Placeholder], unwanted: Iterable[Placeholder] = (), empty: Iterable[Placeholder] = ()
    ) -> None:
        """Take them; whoever does gives them back by `release`.

        `unwanted` are files that were not there, and for which nothing can stand in. `empty` are folders that may
        stand in for another process: what is removed there is gone here too, with the mount that is on it. Raises
        SandboxError when another program does not let go of one.
        """
        self._taken: list[Placeholder] = []
        self._locks: list[int] = []
        self._unwanted: list[Placeholder] = []
        made = list(wanted)
        try:
            for path, root in dict.fromkeys((one.lock or one.path, one.root) for one in (*made, *empty)):
                if (lock := _held(path, root)) is not None:
                    self._locks.append(lock)
            for one in made:
                if one.content is not None:
                    _make_file(one)
        except SandboxError:
            self.release()
            raise
        self._taken, self._unwanted = made, list(unwanted)
        with _counting:
            for one in made:
                _counts[one.path] = _counts.get(one.path, 0) + 1
            for one in self._unwanted:
                _unwanted[one.path] = _unwanted.get(one.path, 0) + 1

    def release(self) -> None:
        """Give them back; those that nobody needs any more, and that are still empty, are gone, as is the unwanted."""
        while self._unwanted:
            one = self._unwanted.pop()
            with _counting:
                _unwanted[one.path] -= 1
                if not _unwanted[one.path]:
                    del _unwanted[one.path]
            if _is_gone(one):
                logger.warning("a command made %s, which decides what git runs: it was removed", one.path)
        while self._locks:
            os.close(self._locks.pop())
        with _counting:
            while self._taken:
                one = self._taken.pop()
                _counts[one.path] -= 1
                if not _counts[one.path]:
                    del _counts[one.path]
                    _remove(one)


def _opened(path: str, root: str, *, is_made: bool = False) -> int:
    """Open a folder below another one, and make it if that is asked for, without following a link; raises OSError."""
    number = os.open(root, _FOLDER)
    try:
        for part in (part for part in os.path.relpath(path, root).split("/") if part != "."):
            if is_made:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=number)
            deeper = os.open(part, _FOLDER, dir_fd=number)
            os.close(number)
            number = deeper
    except BaseException:
        os.close(number)
        raise
    return number


def _is_gone(unwanted: Placeholder) -> bool:
    """Remove a file, and tell whether there was one."""
    folder, name = os.path.split(unwanted.path)
    try:
        number = _opened(folder, unwanted.root)
    except OSError:
        return False
    try:
        os.unlink(name, dir_fd=number)
    except OSError:
        return False
    finally:
        os.close(number)
    return True


def _is_stand_in(file: BinaryIO, content: bytes) -> bool:
    status = os.fstat(file.fileno())
    is_marked = stat.S_ISREG(status.st_mode) and status.st_mtime_ns == _MARK and status.st_size == len(content)
    return is_marked and file.read(len(content) + 1) == content


def _held(path: str, root: str) -> int | None:
    """Make a folder unless it is there, and say to other processes that it is needed; None when it cannot be.

    Raises SandboxError when another program holds it: without the lock it could be taken away.
    """
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        try:
            number = _opened(path, root, is_made=True)
        except OSError:
            return None
        if _is_locked(number) and _is_at(number, path, root):
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


def _is_at(number: int, path: str, root: str) -> bool:
    """Tell whether an open folder is still the one at a path."""
    try:
        found = _opened(path, root)
    except OSError:
        return False
    try:
        return os.path.samestat(os.fstat(number), os.fstat(found))
    finally:
        os.close(found)


def _make_file(one: Placeholder) -> None:
    """Make a file that stands in, unless there is one; raises SandboxError."""
    above, name = os.path.split(one.path)
    try:
        folder = _opened(above, one.root, is_made=True)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            number = os.open(name, flags, 0o644, dir_fd=folder)
        finally:
            os.close(folder)
    except FileExistsError:
        return
    except OSError as error:
        raise SandboxError(f"{one.path} cannot be guarded: {error.strerror or error}") from error
    with open(number, "wb") as file:
        file.write(one.content or b"")
        file.flush()
        os.utime(file.fileno(), ns=(_MARK, _MARK))


def _remove(placeholder: Placeholder) -> None:
    """Remove what stands in, unless another process needs it, or it has become something else."""
    path, content, lock, root = placeholder
    above, name = os.path.split(path)
    with contextlib.ExitStack() as opened:
        try:
            number = _opened(lock or path, root)
            opened.callback(os.close, number)
            folder = _opened(above, root)
            opened.callback(os.close, folder)
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if content is None:
                os.rmdir(name, dir_fd=folder)
                return
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(name, flags, dir_fd=folder), "rb") as file:
                is_ours = _is_stand_in(file, content)
            if is_ours:
                os.unlink(name, dir_fd=folder)
        except OSError:
            pass  # never made, or needed, or somebody has put something there: then it is theirs
