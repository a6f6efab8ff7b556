"""Files into and out of a twin, as tar streams, done inside by a process that is nobody but the twin's user.

Standard library only: the entrance script imports it, before it enters. No symbolic link is followed, no account
looked up (that would load the twin's libraries), no device made or read.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import tarfile
from collections.abc import Iterator
from typing import Any, BinaryIO

from amplifier_digital_twin.embedded.crossing import CrossingError
from amplifier_digital_twin.embedded.descent import FOLDER, descend, split_name

MAX_ENTRIES = 200_000
_MAX_DEPTH = 100
_CHUNK = 256 * 1024
#: What the kernel shows there are not files.
_NOT_FILES = frozenset({"/proc", "/sys", "/dev"})
#: In a pattern, a set of one letter: how a letter that would be special is written, or a path that may be missing.
_ONE_LETTER = re.compile(r"\[([^!\]])\]")


def perform(request: dict[str, Any]) -> None:
    """Do what the request asks: `put` reads standard input, `get` writes standard output; raise CrossingError."""
    try:
        if request["operation"] == "put":
            with open(0, "rb", closefd=False) as stream:
                put(stream, request["folder"], bool(request["uid"] == 0))
        else:
            with open(1, "wb", closefd=False) as stream:
                get(request["paths"], stream, int(request["max_bytes"]))
    except tarfile.TarError as error:
        raise CrossingError("archive_invalid", f"the tar stream cannot be read: {error}") from error
    except OSError as error:
        name = "" if error.filename is None else f"{error.filename!r}: "
        raise CrossingError("transfer_failed", f"{name}{error.strerror}") from error


def _parts(name: str) -> list[str]:
    parts = split_name(name)
    if parts is None:
        raise CrossingError("archive_unsafe", f"the archive names {name!r}, which leads out of the folder")
    return parts


def put(stream: BinaryIO, folder: str, is_root: bool) -> None:
    """Unpack a tar stream into a folder, which is made when missing; raise CrossingError, OSError or TarError."""
    os.makedirs(folder, 0o755, exist_ok=True)
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    folders: list[tuple[list[str], tarfile.TarInfo]] = []
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            parts = _parts(member.name)
            if not parts:
                continue
            if member.isdir():
                os.close(descend(root, parts, is_made=True))
                folders.append((parts, member))
                continue
            parent = descend(root, parts[:-1], is_made=True)
            try:
                _put_member(archive, member, root, parent, parts[-1], is_root)
            finally:
                os.close(parent)
            # In stream mode every member would be remembered.
            archive.members = []  # type: ignore[attr-defined]
    # Last and deepest first: a folder that may not be written to would not take its own files.
    for parts, member in sorted(folders, key=lambda pair: -len(pair[0])):
        descriptor = descend(root, parts, is_made=False)
        _set_metadata(descriptor, member, is_root)
        os.close(descriptor)
    # What follows the archive's end is read, so that the writer is not cut off.
    while stream.read(_CHUNK):
        pass


def _put_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, root: int, parent: int, name: str, is_root: bool
) -> None:
    if not (member.isreg() or member.issym() or member.islnk()):
        raise CrossingError("archive_unsafe", f"the archive holds {member.name!r}, which is no file, folder or link")
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass  # Nothing to replace.
    if member.issym():
        os.symlink(member.linkname, name, dir_fd=parent)
        if is_root:
            os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
        return
    if member.islnk():
        target = _parts(member.linkname)
        source = descend(root, target[:-1], is_made=False)
        try:
            os.link(target[-1], name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(source)
        return
    content = archive.extractfile(member)
    assert content is not None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=parent)
    try:
        while chunk := content.read(_CHUNK):
            _write(descriptor, chunk)
        _set_metadata(descriptor, member, is_root)
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _set_metadata(descriptor: int, member: tarfile.TarInfo, is_root: bool) -> None:
    if is_root:
        os.chown(descriptor, member.uid, member.gid)
    # No setuid or setgid bits: nothing inside may gain rights, and no file should promise it.
    os.chmod(descriptor, member.mode & 0o1777)
    os.utime(descriptor, (member.mtime, member.mtime))


class _Budget:
    """How much may still be given."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = self._bytes = max_bytes
        self._entries = MAX_ENTRIES

    def take(self, size: int) -> None:
        """Count an entry; raise CrossingError when it is too much."""
        self._bytes -= size
        self._entries -= 1
        if self._bytes < 0:
            raise CrossingError("too_large", f"the files asked for hold more than {self._max_bytes} bytes")
        if self._entries < 0:
            raise CrossingError("too_many", f"more than {MAX_ENTRIES} files were asked for")


def get(patterns: list[str], stream: BinaryIO, max_bytes: int) -> None:
    """Write files and folders, with all in them, as a tar stream; names are absolute paths without the first slash.

    A path without wildcards that is missing raises CrossingError (`file_missing`); a pattern may find nothing.
    Symbolic links are recorded as such. Devices, sockets and pipes are left out.
    """
    budget = _Budget(max_bytes)
    given: set[str] = set()
    root = os.open("/", FOLDER)
    folders = _Folders(root)
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for pattern in patterns:
            parts = [part for part in pattern.split("/") if part not in ("", ".")]
            if not pattern.startswith("/") or ".." in parts:
                raise CrossingError("path_invalid", f"{pattern!r} is not an absolute path")
            is_pattern = any(_is_pattern(part) for part in parts)
            plain = [_plain(part) for part in parts] if is_pattern else []
            if None not in plain and plain:
                folders.give([part for part in plain if part is not None], archive, budget, given)
                continue
            found = False
            for path in _find(root, "", parts):
                found = True
                parent = descend(root, path.split("/")[1:-1], is_made=False) if path else os.dup(root)
                try:
                    _give(archive, parent, path or "/", budget, given)
                finally:
                    os.close(parent)
            if not found and not is_pattern:
                raise CrossingError("file_missing", f"there is no {pattern!r} in the twin")
    folders.close()


def _is_pattern(part: str) -> bool:
    return any(letter in part for letter in "*?[")


def _plain(part: str) -> str | None:
    """Return the one name that a pattern can match: all that is special in it are sets of one letter. None for more."""
    name = _ONE_LETTER.sub(r"\1", part)
    rest = _ONE_LETTER.sub("", part)
    return None if _is_pattern(rest) or name in ("", ".", "..") else name


class _Folders:
    """Gives files of which thousands are asked for by name, and many of one folder after the other."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._parts: list[str] = []
        #: The folder of the last one, kept open; None when it cannot be had.
        self._folder: int | None = None

    def give(self, parts: list[str], archive: tarfile.TarFile, budget: _Budget, given: set[str]) -> None:
        """Give what has exactly this path; nothing when it is not there, or the user may not look there."""
        if parts[:-1] != self._parts or self._folder is None:
            self.close()
            self._parts = parts[:-1]
            try:
                self._folder = descend(self._root, self._parts, is_made=False)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                return
        try:
            is_there = _exists(self._folder, parts[-1])
        except PermissionError:
            return
        if is_there:
            _give(archive, self._folder, "/" + "/".join(parts), budget, given)

    def close(self) -> None:
        """Close what is open."""
        folder, self._folder = self._folder, None
        if folder is not None:
            os.close(folder)


def _find(folder: int, prefix: str, parts: list[str], depth: int = 0) -> Iterator[str]:
    """Name what matches below a folder; `**` is any number of folders. Links are matched, never followed."""
    if not parts:
        yield prefix
        return
    if depth > _MAX_DEPTH:
        raise CrossingError("too_many", f"{prefix!r} lies more than {_MAX_DEPTH} folders deep")
    head, rest = parts[0], parts[1:]
    names = _list(folder) if _is_pattern(head) else [head] * _exists(folder, head)
    if head == "**":
        yield from _find(folder, prefix, rest, depth) if rest else ()
    for name in names:
        path = f"{prefix}/{name}"
        if head == "**":
            if not rest:
                yield path
            elif path not in _NOT_FILES:
                yield from _below(folder, name, path, parts, depth)
        elif not _is_pattern(head) or fnmatch.fnmatchcase(name, head):
            if rest:
                yield from _below(folder, name, path, rest, depth)
            else:
                yield path


def _list(folder: int) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except PermissionError:
        return []  # As in a shell, nothing matches in a folder that the user may not read.


def _exists(folder: int, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _below(folder: int, name: str, path: str, parts: list[str], depth: int) -> Iterator[str]:
    try:
        child = os.open(name, FOLDER, dir_fd=folder)
    except (NotADirectoryError, FileNotFoundError):
        return
    except PermissionError:
        if any(_is_pattern(part) for part in parts):
            return
        raise
    try:
        yield from _find(child, path, parts, depth + 1)
    finally:
        os.close(child)


def _give(archive: tarfile.TarFile, parent: int, path: str, budget: _Budget, given: set[str], depth: int = 0) -> None:
    if path in given or path in _NOT_FILES:
        return
    if depth > _MAX_DEPTH:
        raise CrossingError("too_many", f"{path!r} lies more than {_MAX_DEPTH} folders deep")
    given.add(path)
    name = path.rsplit("/", 1)[-1] or "."
    try:
        status = os.lstat(name, dir_fd=parent)
        entry = tarfile.TarInfo(path.lstrip("/") or ".")
        # Whole seconds: a fraction would give every file a header of its own.
        entry.mode, entry.mtime = stat.S_IMODE(status.st_mode) & 0o777, int(status.st_mtime)
        entry.uid, entry.gid = status.st_uid, status.st_gid
        if stat.S_ISLNK(status.st_mode):
            entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=parent)
        elif stat.S_ISDIR(status.st_mode):
            entry.type = tarfile.DIRTYPE
        elif stat.S_ISREG(status.st_mode):
            _give_file(archive, entry, parent, name, budget)
            return
        else:
            return
    except FileNotFoundError:
        return  # It went away while we looked: as if it had gone a moment earlier.
    except OSError as error:
        raise CrossingError("transfer_failed", f"{path!r}: {error.strerror}") from error
    budget.take(0)
    archive.addfile(entry)
    archive.members = []  # type: ignore[attr-defined]
    if entry.isdir():
        try:
            folder = os.open(name, FOLDER, dir_fd=parent)
        except OSError as error:
            raise CrossingError("transfer_failed", f"{path!r}: {error.strerror}") from error
        try:
            for child in sorted(os.listdir(folder)):
                _give(archive, folder, f"{path.rstrip('/')}/{child}", budget, given, depth + 1)
        finally:
            os.close(folder)


class _Exactly:
    """A file read as exactly so many bytes as its entry says, whatever happens to it meanwhile."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._left = size

    def read(self, count: int = -1) -> bytes:
        """Return the next bytes; zeros for what the file has lost."""
        wanted = min(self._left, count if count >= 0 else _CHUNK)
        data = os.read(self._descriptor, wanted) or bytes(wanted)
        self._left -= len(data)
        return data if len(data) == wanted else data + self.read(wanted - len(data))


def _give_file(archive: tarfile.TarFile, entry: tarfile.TarInfo, parent: int, name: str, budget: _Budget) -> None:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return  # Swapped for something else while we looked.
        entry.size = status.st_size
        budget.take(entry.size)
        archive.addfile(entry, _Exactly(descriptor, entry.size))
        archive.members = []  # type: ignore[attr-defined]
    finally:
        os.close(descriptor)
