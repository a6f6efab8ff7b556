"""Walk a path folder by folder, so that no link is followed without a check.

Every folder on the way is opened relative to the one before and must not be a link; links are read and their targets
walked in the same way. So the result is the real path, and the open folder stays the one that was checked,
whatever is renamed or linked meanwhile. The magic links of `/proc` are read as text.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from amplifier_kit.guard.files.errors import FileError, as_file_error, shown

__all__ = ["Identity", "Place", "reach"]

#: A folder is looked into, not listed: O_PATH needs no right to read it.
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS: Final = 40


class Identity(NamedTuple):
    """Identifies a file by device and inode, independent of its names."""

    device: int
    inode: int


@dataclass
class Place:
    """A name in an open folder; if something exists there, no unchecked link led to it.

    Close it, or use it in `with`.
    """

    #: The true path: absolute, all links followed.
    path: Path
    #: Descriptor of the last folder that exists.
    folder: int
    #: Folders between that one and the name that do not exist yet.
    missing: tuple[str, ...]
    #: `.` when the place is the folder itself.
    name: str
    #: The folders on the way, outermost first.
    chain: tuple[Identity, ...]
    _is_open: bool = field(default=True, repr=False)

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()  # for callers that were cancelled

    def close(self) -> None:
        """Close the folder; idempotent."""
        if self._is_open:
            self._is_open = False
            os.close(self.folder)

    @property
    def named(self) -> str:
        """Return the path as text for people."""
        return shown(self.path)

    def status(self) -> os.stat_result | None:
        """Return the status of the place, None when it does not exist; links are not followed."""
        if self.missing:
            return None
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreachable(self.path, error) from error

    def folder_path(self) -> Path | None:
        """Return the current path of the open folder, None where the system does not provide it."""
        try:
            return Path(os.readlink(f"/proc/self/fd/{self.folder}"))
        except OSError:
            return None

    def current_path(self) -> Path | None:
        """Return the current path of the place, if known: a folder may have been moved."""
        folder = self.folder_path()
        if folder is None:
            return None
        return folder.joinpath(*self.missing) if self.name == "." else folder.joinpath(*self.missing, self.name)

    def enter(self, name: str) -> None:
        """Step into the first missing folder, which exists by now; a link in its place is refused."""
        with as_file_error(f"{self.named} cannot be reached"):
            inner = os.open(name, _FOLDER, dir_fd=self.folder)
        os.close(self.folder)
        self.folder, self.missing = inner, self.missing[1:]


def reach(path: str, *, follow: bool = True, confine: Path | None = None) -> Place:
    """Walk an absolute path and return its place; with `follow` false, a link at its very end is the place itself.

    A link that lies in the folder `confine`, whose true path that is, must not lead out of it. Raises FileError for one
    that does, for a path that no file can have, one that leads through a file, and links in a circle.
    """
    if not path.startswith("/") or "\0" in path:
        raise FileError("invalid_path", f"{shown(path)!r} is not an absolute path")
    try:
        path.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise FileError("invalid_path", "the path has characters that no file name can have") from None
    walk = _Walk(path, follow, confine)
    try:
        return walk.run()
    except OSError as error:
        raise _unreachable(path, error) from error
    finally:
        walk.close()


class _Walk:
    """The open folders, and the names left to walk."""

    def __init__(self, path: str, follow: bool, confine: Path | None) -> None:
        self._path = path
        self._follow = follow
        self._confine = confine
        self._is_confined = False
        self._pending = deque(_steps(path))
        self._links = 0
        self._names: list[str] = []
        self._folders: list[int] = []
        self._folders.append(os.open("/", _FOLDER))

    def close(self) -> None:
        """Close the folders that no place has taken."""
        while self._folders:
            os.close(self._folders.pop())

    def run(self) -> Place:
        """Walk to the end."""
        while self._pending:
            step = self._pending.popleft()
            if step == "..":
                self._leave()
            elif not self._pending:
                target = self._target(step) if self._follow else None
                if target is None:
                    return self._place(step)
                self._splice(target)
            else:
                rest = self._step(step)
                if rest is not None:
                    return self._place(rest[-1], rest[:-1])
        return self._place(".")

    def _leave(self) -> None:
        if self._names:
            self._names.pop()
            os.close(self._folders.pop())

    def _step(self, name: str) -> tuple[str, ...] | None:
        """Enter a folder or follow a link; return the remaining names when the folder does not exist."""
        try:
            self._folders.append(os.open(name, _FOLDER, dir_fd=self._folders[-1]))
            self._names.append(name)
        except FileNotFoundError:
            if ".." in self._pending:
                raise
            return (name, *self._pending)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            target = self._target(name)
            if target is None:
                raise
            self._splice(target)
        return None

    def _target(self, name: str) -> str | None:
        """Return the target of a link, None for anything else."""
        try:
            return os.readlink(name, dir_fd=self._folders[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _splice(self, target: str) -> None:
        self._links += 1
        if self._links > _MOST_LINKS:
            raise FileError("too_many_links", f"{shown(self._path)} leads through too many links, maybe in a circle")
        if self._confine is not None and Path("/", *self._names).is_relative_to(self._confine):
            self._is_confined = True
        if target.startswith("/"):
            while self._names:
                self._leave()
        self._pending.extendleft(reversed(_steps(target)))

    def _place(self, name: str, missing: Iterable[str] = ()) -> Place:
        missing = tuple(missing)
        chain = tuple(_identity(folder) for folder in self._folders)
        path = Path("/", *self._names, *missing, *([] if name == "." else [name]))
        if self._is_confined and self._confine is not None and not path.is_relative_to(self._confine):
            raise FileError(
                "link_leads_out", f"{shown(self._path)} leads to {shown(path)} by a link, out of {shown(self._confine)}"
            )
        return Place(path, self._folders.pop(), missing, name, chain)


def _steps(path: str) -> list[str]:
    return [step for step in path.split("/") if step not in ("", ".")]


def _identity(folder: int) -> Identity:
    found = os.fstat(folder)
    return Identity(found.st_dev, found.st_ino)


def _unreachable(path: object, error: OSError) -> FileError:
    try:
        with as_file_error(f"{shown(path)} cannot be reached"):
            raise error
    except FileError as wrapped:
        return wrapped
