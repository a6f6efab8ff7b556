"""Placeholders for paths that a command must not create: bubblewrap can mount something only where something exists.

A placeholder is an empty folder, or a file with fixed content, in a writable folder of the host. It is created before
the command starts and removed by the last command that needs it, in this process or another one. A shared `flock` on a
folder says that it is needed. The library `filelock` does not fit: its locks are exclusive, on files that it creates,
while here several processes share locks on existing folders, opened without following links.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from amplifier_kit.guard.control_files import StandIn
from amplifier_kit.guard.sandbox.errors import SandboxError
from amplifier_kit.named_tuple import NamedTuple

logger = logging.getLogger(__name__)

#: Seconds to wait for another process that holds the exclusive lock while it removes a placeholder.
_LOCK_TIMEOUT: Final = 5.0
_LOCK_INTERVAL: Final = 0.01
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Names of files: a folder there is a placeholder of a program that was killed.
_FILE_NAMES: Final = frozenset((".mcp.json",))
#: The modification time, in nanoseconds, that distinguishes placeholder files from those of the user.
_MTIME: Final = 1_000_000_007

#: Folders that this process created as placeholders.
_created: Final[set[str]] = set()
#: Files that must not be there, by the number of running commands that might create them.
_forbidden: Final[Counter[str]] = Counter()
_forbidden_lock: Final = threading.Lock()
#: Held while placeholders are removed: threads that lock the same folder would keep each other from it.
_removal_lock: Final = threading.Lock()


class Placeholder(NamedTuple):
    """A placeholder at a path: a file with some content, or an empty folder when that is None."""

    path: str
    content: bytes | None = None
    #: The folder that is locked while a file is needed; folders are locked themselves.
    lock: str = ""
    #: The writable folder around it. Links below are not followed: a command may have created them.
    root: str = "/"


def is_placeholder(path: str, stand_in: StandIn | None) -> bool:
    """Return whether there is a placeholder at a path, of this process, another one, or one that was killed.

    `stand_in` is the expected content: anything else is the user's.
    """
    if stand_in is None:
        return False
    if stand_in.content is None:
        if os.path.basename(path) in _FILE_NAMES:
            return os.path.isdir(path)
        try:
            return path in _created and not os.listdir(path)
        except FileNotFoundError:
            return True  # it was removed just now
        except OSError:
            return False
    try:
        with open(os.open(path, _FILE), "rb") as file:
            return _is_placeholder_file(file, stand_in.content)
    except OSError:
        return False


def is_forbidden(path: str) -> bool:
    """Return whether a file did not exist before a command that still runs, which may have created it."""
    return _forbidden[path] > 0


class Placeholders:
    """The placeholders of one command, held until `release`."""

    def __init__(
        self, wanted: Iterable[Placeholder], forbidden: Iterable[Placeholder] = (), empty: Iterable[Placeholder] = ()
    ) -> None:
        """Create `wanted` and lock their folders.

        `forbidden` are files without a possible placeholder: `release` removes them. `empty` are empty folders that may
        be placeholders of another process: they are locked, as a mount disappears with the folder that it is on.
        Raises SandboxError when another program keeps a folder locked.
        """
        self._placeholders: list[Placeholder] = []
        self._locks: list[int] = []
        self._forbidden: list[Placeholder] = []
        wanted = list(wanted)
        try:
            for path, root in dict.fromkeys((each.lock or each.path, each.root) for each in (*wanted, *empty)):
                if (lock := _lock_folder(path, root)) is not None:
                    self._locks.append(lock)
            for each in wanted:
                if each.content is not None:
                    _create_file(each)
                else:
                    _created.add(each.path)
        except SandboxError:
            self.release()
            raise
        self._placeholders, self._forbidden = wanted, list(forbidden)
        with _forbidden_lock:
            _forbidden.update(each.path for each in self._forbidden)

    def release(self) -> None:
        """Remove the placeholders that no other command needs and that are still empty, and the forbidden files."""
        while self._forbidden:
            each = self._forbidden.pop()
            with _forbidden_lock:
                _forbidden[each.path] -= 1
            folder, name = os.path.split(each.path)
            with contextlib.suppress(OSError), _opened(folder, each.root) as number:
                os.unlink(name, dir_fd=number)
                logger.warning("a command made %s, which decides what git runs: it was removed", each.path)
        while self._locks:
            os.close(self._locks.pop())
        with _removal_lock:
            while self._placeholders:
                _remove(self._placeholders.pop())


@contextlib.contextmanager
def _opened(path: str, root: str, *, create: bool = False) -> Iterator[int]:
    """Open a folder below another, and create it on demand, without following links; raises OSError."""
    number = os.open(root, _FOLDER)
    try:
        for part in (part for part in os.path.relpath(path, root).split("/") if part != "."):
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=number)
            child = os.open(part, _FOLDER, dir_fd=number)
            os.close(number)
            number = child
        yield number
    finally:
        os.close(number)


def _is_placeholder_file(file: BinaryIO, content: bytes) -> bool:
    status = os.fstat(file.fileno())
    is_marked = stat.S_ISREG(status.st_mode) and status.st_mtime_ns == _MTIME and status.st_size == len(content)
    return is_marked and file.read(len(content) + 1) == content


def _lock_folder(path: str, root: str) -> int | None:
    """Create a folder unless it exists, and lock it for other processes; None when it cannot be created.

    Raises SandboxError when another program holds the lock: it could remove the folder.
    """
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while time.monotonic() < deadline:
        try:
            # An error inside means that another process is removing the folder, or has done so.
            with _opened(path, root, create=True) as number, contextlib.suppress(OSError):
                fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
                with _opened(path, root) as current:
                    if os.path.samestat(os.fstat(number), os.fstat(current)):
                        return os.dup(number)  # which shares the lock
        except OSError:
            return None
        time.sleep(_LOCK_INTERVAL)
    raise SandboxError(f"{path} cannot be guarded: another program has locked it. End that program")


def _create_file(placeholder: Placeholder) -> None:
    """Create a placeholder file unless it exists; raises SandboxError."""
    folder, name = os.path.split(placeholder.path)
    try:
        with _opened(folder, placeholder.root, create=True) as number:
            created = os.open(name, _NEW_FILE, 0o644, dir_fd=number)
    except FileExistsError:
        return
    except OSError as error:
        raise SandboxError(f"{placeholder.path} cannot be guarded: {error.strerror or error}") from error
    with open(created, "wb") as file:
        file.write(placeholder.content or b"")
        file.flush()
        os.utime(file.fileno(), ns=(_MTIME, _MTIME))


def _remove(placeholder: Placeholder) -> None:
    """Remove a placeholder unless a command needs it or it has become something else."""
    path, content, lock, root = placeholder
    folder, name = os.path.split(path)
    try:
        with _opened(lock or path, root) as locked, _opened(folder, root) as number:
            fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if content is None:
                _created.discard(path)
                os.rmdir(name, dir_fd=number)
                return
            with open(os.open(name, _FILE, dir_fd=number), "rb") as file:
                is_ours = _is_placeholder_file(file, content)
            if is_ours:
                os.unlink(name, dir_fd=number)
    except FileNotFoundError:
        _created.discard(path)  # it was never created, or the user has removed it
    except OSError:
        pass  # it is still needed, or has content of the user
