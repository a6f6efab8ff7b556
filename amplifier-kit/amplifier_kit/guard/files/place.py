"""Reach and open files safely: walk a path without following unchecked links, check that it is in an allowed folder.

Every folder on the way is opened relative to the one before and must not be a link; links are read and their targets
walked in the same way. So the result is the real path, and the open folder stays the one that was checked,
whatever is renamed or linked meanwhile. The magic links of `/proc` are read as text.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import BinaryIO, Final

from amplifier_kit.struct import FrozenStruct, Struct

#: A folder is entered, not listed: O_PATH needs no permission to read it.
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS: Final = 40
#: Longer paths exist on no system.
_LONGEST_PATH: Final = 4096
#: Pseudo-files of the system: they hold secrets of processes, change when read, or never end.
_SPECIAL: Final = (Path("/proc"), Path("/sys"))
#: On macOS, names that differ in case or in composition are one name.
_FOLDS_CASE: Final = sys.platform == "darwin"

_CODES: Final = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "is_directory",
    errno.EEXIST: "already_exists",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "read_only",
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EFBIG: "too_large",
    errno.ELOOP: "changed_meanwhile",
    errno.ENAMETOOLONG: "invalid_path",
}


# -- errors --


class FileError(Exception):
    """A file cannot be read or written; the text says why and what to do, `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        #: A file whose content the message reveals; `Workspace.disclosable` checks that the session may read it.
        self.disclosed_path: Path | None = None
        #: The message for a session that may not read it; None for a general one.
        self.without_content: str | None = None


def shown(path: object) -> str:
    """Return a path as printable text: invalid UTF-8 is escaped, overlong paths are cut."""
    text = str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if len(text) <= _LONGEST_PATH else f"{text[:200]}…"


@contextmanager
def discloses(path: Path, otherwise: str | None = None) -> Iterator[None]:
    """Mark a FileError raised here as one whose message reveals content of the file."""
    try:
        yield
    except FileError as error:
        if error.disclosed_path is None:
            error.disclosed_path, error.without_content = path, otherwise
        raise


@contextmanager
def as_file_error(what: str) -> Iterator[None]:
    """Turn an OSError into a FileError whose message begins with `what`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(_CODES.get(error.errno or 0, "io_error"), f"{what}: {reason}") from error


# -- places --


class _Identity(FrozenStruct):
    """Identifies a file whatever its names are."""

    device: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> _Identity:
        return cls(status.st_dev, status.st_ino)


class Place(Struct):
    """A name in an open folder; if something exists there, no unchecked link led to it.

    Close it, or use it in `with`.
    """

    #: The real path: absolute, all links followed.
    path: Path
    #: Descriptor of the last folder that exists.
    folder: int
    #: Folders between that one and the name that do not exist yet.
    missing: tuple[str, ...]
    #: `.` when the place is the folder itself.
    name: str
    #: The folders on the way, outermost first.
    chain: tuple[_Identity, ...]
    _is_open: bool = field(default=True, repr=False)

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *raised: object) -> None:
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
        return shown(self.path)

    def status(self) -> os.stat_result | None:
        """Return the status of the place, None when it does not exist; links are not followed."""
        if self.missing:
            return None
        with as_file_error(f"{self.named} cannot be reached"):
            try:
                return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
            except FileNotFoundError:
                return None

    def current_path(self) -> Path | None:
        """Return where the place is now, which changes when a folder is moved; None if it is unknown."""
        try:
            folder = Path(os.readlink(f"/proc/self/fd/{self.folder}"))
        except OSError:
            return None
        return folder.joinpath(*self.missing, "" if self.name == "." else self.name)

    def make_folders(self, mode: int = 0o777, on_made: Callable[[int, str], None] | None = None) -> None:
        """Make the missing folders and enter them; a link in the place of one is refused.

        `on_made` gets the parent and the name of each folder that did not exist. Raises OSError and FileError.
        """
        while self.missing:
            name = self.missing[0]
            try:
                os.mkdir(name, mode, dir_fd=self.folder)
                if on_made is not None:
                    on_made(self.folder, name)
            except FileExistsError:
                pass  # made by an earlier change or by another process
            with as_file_error(f"{self.named} cannot be reached"):
                inner = os.open(name, _FOLDER, dir_fd=self.folder)
            os.close(self.folder)
            self.folder, self.missing = inner, self.missing[1:]


def reach(path: str, *, follow: bool = True, confine: Path | None = None) -> Place:
    """Walk an absolute path and return its place; with `follow` false, a link at its very end is the place itself.

    A link in the folder `confine`, given by its real path, must not lead out of it. Raises FileError for one that does,
    for an invalid path, one that leads through a file, and links in a circle.
    """
    if not path.startswith("/") or "\0" in path:
        raise FileError("invalid_path", f"{shown(path)!r} is not an absolute path")
    try:
        path.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise FileError("invalid_path", "the path has characters that no file name can have") from None
    with as_file_error(f"{shown(path)} cannot be reached"):
        walk = _Walk(path, follow, confine)
        try:
            return walk.run()
        finally:
            walk.close()


class _Walk:
    """The open folders, and the names still to walk."""

    def __init__(self, path: str, follow: bool, confine: Path | None) -> None:
        self._path = path
        self._follow = follow
        self._confine = confine
        self._is_confined = False
        self._pending = deque(_split(path))
        self._links = 0
        self._names: list[str] = []
        self._folders = [os.open("/", _FOLDER)]

    def close(self) -> None:
        """Close the folders that no place has taken."""
        while self._folders:
            os.close(self._folders.pop())

    def run(self) -> Place:
        while self._pending:
            name = self._pending.popleft()
            if name == "..":
                self._leave()
            elif not self._pending:
                target = self._link_target(name) if self._follow else None
                if target is None:
                    return self._place(name)
                self._follow_link(target)
            elif not self._enter(name):
                *missing, name = (name, *self._pending)
                return self._place(name, missing)
        return self._place(".")

    def _leave(self) -> None:
        if self._names:
            self._names.pop()
            os.close(self._folders.pop())

    def _enter(self, name: str) -> bool:
        """Enter a folder or follow a link; return False when it does not exist."""
        try:
            self._folders.append(os.open(name, _FOLDER, dir_fd=self._folders[-1]))
            self._names.append(name)
        except FileNotFoundError:
            if ".." in self._pending:
                raise
            return False
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP) or (target := self._link_target(name)) is None:
                raise
            self._follow_link(target)
        return True

    def _link_target(self, name: str) -> str | None:
        """Return the target of a link, None for anything else."""
        try:
            return os.readlink(name, dir_fd=self._folders[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _follow_link(self, target: str) -> None:
        self._links += 1
        if self._links > _MOST_LINKS:
            raise FileError("too_many_links", f"{shown(self._path)} leads through too many links, maybe in a circle")
        if self._confine is not None and Path("/", *self._names).is_relative_to(self._confine):
            self._is_confined = True
        if target.startswith("/"):
            while self._names:
                self._leave()
        self._pending.extendleft(reversed(_split(target)))

    def _place(self, name: str, missing: Iterable[str] = ()) -> Place:
        missing = tuple(missing)
        chain = tuple(_Identity.of(os.fstat(folder)) for folder in self._folders)
        path = Path("/", *self._names, *missing, "" if name == "." else name)
        if self._is_confined and self._confine is not None and not path.is_relative_to(self._confine):
            raise FileError(
                "link_leads_out", f"{shown(self._path)} leads to {shown(path)} by a link, out of {shown(self._confine)}"
            )
        return Place(path, self._folders.pop(), missing, name, chain)


def _split(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


# -- allowed folders --


class Roots(FrozenStruct):
    """Where files may be read or written: allowed folders and files, None for all, and denied ones, which win.

    `/proc` and `/sys` are never allowed.
    """

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
        is_special = place.chain[-1].device in _special_devices()
        for path in dict.fromkeys((place.path, place.current_path() or place.path)):
            if is_special or any(_is_below(path, special) for special in _SPECIAL):
                raise FileError(
                    "special_file", f"{shown(path)} is not a file but a view into the system; use a command"
                )
            for root in self.denied:
                if _is_below(path, root):
                    raise FileError("denied_path", f"{shown(path)} must not be {verb}: {shown(root)} is denied")
            if self.allowed is not None and not any(_is_below(path, root) for root in self.allowed):
                listed = ", ".join(shown(root) for root in self.allowed) or "nothing"
                raise FileError("outside_allowed_paths", f"{shown(path)} must not be {verb}: allowed is {listed}")
        self._check_identity(place, verb)

    def _check_identity(self, place: Place, verb: str) -> None:
        """Refuse a place that is in a denied root under another name: other case, hard link, second mount."""
        status = place.status() if self.denied else None
        found = {*place.chain, *([_Identity.of(status)] if status is not None else [])}
        for root in self.denied:
            try:
                identity = _Identity.of(os.stat(root))
            except OSError:
                continue  # a missing folder has no other name
            if identity in found:
                raise FileError("denied_path", f"{place.named} must not be {verb}: {shown(root)} is denied")


def _special_devices() -> set[int]:
    """Return the devices of special folders, which may be mounted a second time under a harmless name."""
    found = set()
    for special in _SPECIAL:
        try:
            found.add(os.stat(special).st_dev)
        except OSError:
            continue  # not on this system
    return found - {os.stat("/").st_dev}


def _resolve(root: str | Path, base: Path) -> Path:
    return Path(os.path.realpath(base / Path(root).expanduser()))


def _is_below(path: Path, root: Path) -> bool:
    if _FOLDS_CASE:
        path, root = _fold(path), _fold(root)
    return path.is_relative_to(root)


def _fold(path: Path) -> Path:
    import unicodedata

    return Path(unicodedata.normalize("NFD", unicodedata.normalize("NFD", str(path)).casefold()))


# -- reading --

#: Larger files are not read into memory as a whole.
LARGEST_TEXT: Final = 50 * 1024 * 1024
# Do not block on a pipe, or follow a link, that has just replaced the file.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


class Content(FrozenStruct):
    """The bytes of a file, and its status when they were read."""

    data: bytes
    status: os.stat_result


def is_unchanged(before: os.stat_result | None, now: os.stat_result | None) -> bool:
    """Return whether a place has the same file, or none, at both moments: to notice changes by other processes."""
    if before is None or now is None:
        return before is now
    fields = ("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
    return all(getattr(before, name) == getattr(now, name) for name in fields)


def open_file(place: Place, roots: Roots) -> BinaryIO:
    """Open a regular file that the roots allow to read; other kinds of files are refused without blocking.

    Where reading is confined to some folders, a file that has a second name (hard link) is refused: that name may lie
    outside of them.
    """
    named = place.status()
    _check_regular(place, named)
    with as_file_error(f"{place.named} cannot be read"):
        file = open(os.open(place.name, _READ, dir_fd=place.folder), "rb")  # noqa: SIM115 - given to the caller
    try:
        opened = os.fstat(file.fileno())
        _check_regular(place, opened)
        roots.check(place, "read")
        if roots.allowed is not None:
            _check_only_name(place, named, opened)
    except BaseException:
        file.close()
        raise
    return file


def read_content(place: Place, roots: Roots, largest: int = LARGEST_TEXT) -> Content:
    """Return the whole content of a regular file; raises FileError for one of more than `largest` bytes."""
    with open_file(place, roots) as file, as_file_error(f"{place.named} cannot be read"):
        status = os.fstat(file.fileno())
        data = file.read(largest + 1)
    if len(data) > largest:
        raise FileError(
            "too_large", f"{place.named} has more than {largest:,} bytes, too many to be changed as text; use a command"
        )
    return Content(data, status)


def _check_regular(place: Place, status: os.stat_result | None) -> None:
    if status is None:
        raise FileError("not_found", f"{place.named} does not exist")
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        raise FileError("changed_meanwhile", f"{place.named} has just become a link; look at it again")
    if stat.S_ISDIR(mode):
        raise FileError("is_directory", f"{place.named} is a folder")
    if not stat.S_ISREG(mode):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise FileError("special_file", f"{place.named} is {kind}, not a regular file")


def _check_only_name(place: Place, named: os.stat_result | None, opened: os.stat_result) -> None:
    # The names may have been removed since: count the links that existed while the name did.
    if named is None or (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):
        raise FileError("changed_meanwhile", f"{place.named} was replaced just now; read it again")
    if max(named.st_nlink, opened.st_nlink) > 1:
        raise FileError(
            "hard_link",
            f"{place.named} has {named.st_nlink} names (hard links), and reading is confined to some folders: another "
            "name may lie outside of them. Copy the file, then read the copy",
        )
