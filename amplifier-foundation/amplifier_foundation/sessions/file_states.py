"""The state of files for checkpoints: read it, copy it, and restore it, with links, modes and new folders.

Every step opens a path again from the root, folder by folder, and uses the file through its open folder. A folder that
became a link is an error (PathChangedError): nothing behind it is read, written or deleted.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

from amplifier_foundation.files import make_private
from amplifier_kit.guard.files.changes import hidden_name
from amplifier_kit.guard.files.place import FileError, Place, Roots, open_file, reach
from amplifier_kit.named_tuple import NamedTuple

__all__ = ["LARGEST", "CopyStore", "FileState", "PathChangedError", "Restoration", "real_path", "route", "state_at"]

#: Files with more bytes are not copied.
LARGEST = 10 * 1024 * 1024
_CHUNK = 1 << 20
_MOST_LINKS = 40

Kind = Literal["absent", "file", "link", "folder", "other"]


class PathChangedError(OSError):
    """A folder of a path has become a link: the file there is another one than was stored."""


class FileState(NamedTuple):
    """The state of a path at one moment."""

    #: Absolute, with the links of its folders resolved; the last part may be a link.
    path: Path
    kind: Kind
    #: Of a file: the hash of its content, None if it is too large to copy.
    sha256: str | None = None
    size: int = 0
    mode: int = 0
    mtime_ns: int = 0
    #: Of a link: its target.
    target: str = ""
    #: Of an absent file: the first of its folders that is absent too.
    missing: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether it can be restored."""
        return self.kind in ("absent", "link") or (self.kind == "file" and self.sha256 is not None)

    def has_same_content(self, other: FileState) -> bool:
        """Return whether both have the same kind and content; modes and times may differ."""
        if self.kind != other.kind:
            return False
        if self.kind == "link":
            return self.target == other.target
        if self.kind != "file":
            return True
        if self.sha256 is not None and other.sha256 is not None:
            return self.sha256 == other.sha256
        return (self.size, self.mtime_ns) == (other.size, other.mtime_ns)

    def is_same(self, other: FileState) -> bool:
        """Return whether replacing one by the other would change nothing."""
        return self.has_same_content(other) and (self.kind != "file" or self.mode == other.mode)

    def to_record(self) -> dict[str, Any]:
        """Return plain data, without empty fields."""
        record: dict[str, Any] = {"path": str(self.path), "kind": self.kind}
        if self.kind == "file":
            record |= {"sha256": self.sha256, "size": self.size, "mode": self.mode, "mtime_ns": self.mtime_ns}
        return record | {key: value for key in ("target", "missing") if (value := getattr(self, key))}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> FileState:
        """Return the state in a record; raises KeyError, TypeError or ValueError for an invalid one."""
        if record["kind"] not in ("absent", "file", "link", "folder", "other") or not os.path.isabs(record["path"]):
            raise ValueError("not the state of a file")
        return cls(**{**record, "path": Path(record["path"])})


class CopyStore:
    """Copies of files in one folder, each content once, named by its hash; readable only by their owner.

    Git objects would not be less code: copies are checked, limited and compared by a hash that works without git, and
    reading safely and restoring, which is most of this module, would stay. The caller holds a lock.
    """

    def __init__(self, folder: Path) -> None:
        """Use a folder, which the first copy creates."""
        self._folder = folder
        self._unfinished = folder / "unfinished"

    def path(self, sha256: str) -> Path:
        """Return the path of a copy."""
        return self._folder / sha256

    def keep(self, source: IO[bytes], largest: int | None) -> tuple[str | None, int]:
        """Copy a file and return its hash and size; no hash if it is larger than `largest`. Raises OSError."""
        import hashlib

        make_private(self._unfinished)
        fresh = self._unfinished / f"{os.getpid()}-{time.monotonic_ns():x}"
        digest, size = hashlib.sha256(), 0
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
                for chunk in iter(lambda: source.read(_CHUNK), b""):
                    size += len(chunk)
                    if largest is not None and size > largest:
                        return None, size
                    digest.update(chunk)
                    copy.write(chunk)
                copy.flush()
                os.fsync(copy.fileno())
            final = self.path(digest.hexdigest())
            if not _has_size(final, size):
                os.replace(fresh, final)
        finally:
            fresh.unlink(missing_ok=True)
        return digest.hexdigest(), size

    def sweep(self) -> None:
        """Delete unfinished copies of processes that died."""
        try:
            for left in list(self._unfinished.iterdir()):
                left.unlink(missing_ok=True)
        except FileNotFoundError:
            pass  # nothing was copied yet

    def write(self, sha256: str, target: IO[bytes]) -> None:
        """Write the content of a copy to `target`; raises OSError, also if the copy is damaged."""
        import hashlib

        digest = hashlib.sha256()
        with open(self.path(sha256), "rb") as copy:
            for chunk in iter(lambda: copy.read(_CHUNK), b""):
                digest.update(chunk)
                target.write(chunk)
        if digest.hexdigest() != sha256:
            raise OSError(None, "the copy is damaged", str(self.path(sha256)))


def real_path(path: Path | str) -> Path:
    """Return the absolute path of a file, with the links of its folders resolved."""
    folder, name = os.path.split(path)
    if name in ("", ".", ".."):
        return Path(os.path.realpath(path))
    return Path(os.path.realpath(folder), name)


def route(path: Path | str) -> list[Path]:
    """Return the path and, if it is a link, every path it leads to: a write may touch any of them."""
    places = [real_path(path)]
    while len(places) < _MOST_LINKS:
        try:
            target = os.readlink(places[-1])
        except OSError:
            break  # not a link
        following = real_path(places[-1].parent / target)
        if following in places:
            break
        places.append(following)
    return places


def state_at(path: Path, store: CopyStore | None, largest: int | None = LARGEST) -> FileState:
    """Return the state of a path; with a store, its content is copied there.

    A file larger than `largest` is neither copied nor hashed. Only regular files are opened. Raises OSError, and
    PathChangedError if one of its folders is a link.
    """
    try:
        with _reached(path) as place:
            return _state(place, store, largest)
    except (FileNotFoundError, NotADirectoryError):
        return FileState(path, "absent", missing=_first_missing(path))


def _state(place: Place, store: CopyStore | None, largest: int | None) -> FileState:
    path, found = place.path, place.status()
    if found is None:
        missing = str(path.parents[len(place.missing) - 1]) if place.missing else ""
        return FileState(path, "absent", missing=missing)
    if stat.S_ISLNK(found.st_mode):
        return FileState(path, "link", target=os.readlink(place.name, dir_fd=place.folder))
    if not stat.S_ISREG(found.st_mode):
        return FileState(path, "folder" if stat.S_ISDIR(found.st_mode) else "other")
    with open_file(place, Roots()) as file:
        found = os.fstat(file.fileno())
        state = FileState(
            path, "file", size=found.st_size, mode=stat.S_IMODE(found.st_mode), mtime_ns=found.st_mtime_ns
        )
        if largest is not None and found.st_size > largest:
            return state
        sha256, size = store.keep(file, largest) if store else (_hash(file), found.st_size)
    return state._replace(sha256=sha256, size=size)


@contextmanager
def _reached(path: Path) -> Iterator[Place]:
    """Yield the place of a path, opened folder by folder; raises OSError, and PathChangedError if one is a link."""
    try:
        with reach(str(path), follow=False) as place:
            if place.path != path:
                text = f"{path}: one of its folders is a link to another place now, {place.named}"
                raise PathChangedError(errno.ELOOP, text)
            yield place
    except FileError as error:
        cause = error.__cause__
        if isinstance(cause, OSError):
            raise OSError(cause.errno, cause.strerror, str(path)) from error
        raise PathChangedError(errno.ELOOP, error.message) from error
    except OSError as error:
        if not isinstance(error.filename, str) or os.path.isabs(error.filename):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


class Restoration:
    """Restore states in two steps: entering writes new files beside the old ones, `go` renames them.

    Use as `with Restoration(states, store) as prepared: prepared.go()`. Entering raises OSError and changes nothing.
    If `go` raises OSError, the states in `done` are restored.
    """

    def __init__(self, states: Sequence[FileState], store: CopyStore) -> None:
        """Restore `states`, each with another path, whose content is in the store."""
        self._states = states
        self._store = store
        self._fresh: dict[Path, Path] = {}
        self._made: list[Path] = []
        self.done: list[FileState] = []

    def __enter__(self) -> Restoration:
        try:
            for state in self._states:
                self._prepare(state)
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._discard()

    def go(self) -> None:
        """Replace the files, each atomically."""
        for state in self._states:
            with _reached(state.path) as place:
                if state.kind != "absent":
                    fresh = self._fresh[state.path].name
                    os.rename(fresh, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
                    del self._fresh[state.path]
                elif not place.missing:
                    _unlink(place.name, place.folder)
            self.done.append(state)
        self._made.clear()
        for state in self._states:
            _remove_empty(state)

    def _prepare(self, state: FileState) -> None:
        parent = state.path.parent
        with _reached(state.path) as place:
            if state.kind == "absent":
                if not place.missing and not os.access(".", os.W_OK | os.X_OK, dir_fd=place.folder):
                    raise PermissionError(errno.EACCES, "the folder is not writable", str(parent))
                return
            self._make_folders(place)
            fresh = hidden_name()
            self._fresh[state.path] = parent / fresh
            if state.kind == "link":
                os.symlink(state.target, fresh, dir_fd=place.folder)
                return
            assert state.sha256 is not None
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(fresh, flags, 0o600, dir_fd=place.folder), "wb") as file:
                self._store.write(state.sha256, file)
                _keep_owner(place, file.fileno())
                os.fchmod(file.fileno(), state.mode)
                file.flush()
                os.fsync(file.fileno())

    def _make_folders(self, place: Place) -> None:
        def note(folder: int, name: str) -> None:
            self._made.append(place.path.parents[len(place.missing) - 1])

        place.make_folders(on_made=note)

    def _discard(self) -> None:
        for fresh in self._fresh.values():
            try:
                with _reached(fresh) as place:
                    _unlink(place.name, place.folder)
            except OSError:
                continue  # the reason is being reported already
        for folder in reversed(self._made):
            _try_rmdir(folder)


def _hash(file: IO[bytes]) -> str:
    import hashlib

    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def _first_missing(path: Path) -> str:
    missing = [folder for folder in path.parents if not os.path.lexists(folder)]
    return str(missing[-1]) if missing else ""


def _keep_owner(place: Place, descriptor: int) -> None:
    """Set the owner of the replaced file on the new one, where that is allowed."""
    found = place.status()
    if found is None or (found.st_uid, found.st_gid) == (os.geteuid(), os.getegid()):
        return
    try:
        os.fchown(descriptor, found.st_uid, found.st_gid)
    except OSError:
        pass  # only an administrator may do that


def _remove_empty(state: FileState) -> None:
    """Delete the folders that were absent too, if they are empty."""
    if state.kind == "absent" and state.missing:
        for folder in _up_to(state.path.parent, Path(state.missing)):
            if not _try_rmdir(folder):
                return


def _up_to(folder: Path, last: Path) -> Iterator[Path]:
    for one in (folder, *folder.parents):
        if one != last and last not in one.parents:
            return
        yield one


def _try_rmdir(folder: Path) -> bool:
    try:
        with _reached(folder) as place:
            if not place.missing:
                os.rmdir(place.name, dir_fd=place.folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # not empty, or a link now
    return True


def _unlink(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
