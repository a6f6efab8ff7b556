"""Tar streams on the host's side: files packed for a twin, and what comes out of one, which nobody can trust."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from amplifier_digital_twin.embedded.descent import descend, split_name
from amplifier_digital_twin.errors import TwinError

MAX_ENTRIES = 200_000
_CHUNK = 256 * 1024
#: What headers may take beyond the files' content.
_OVERHEAD = 64 * 1024 * 1024
_UNSAFE_REMEDY = "Do not trust the twin: look at the archive by other means."


class Skipped(NamedTuple):
    """An entry that was not unpacked: links and devices never are."""

    name: str
    kind: str


class Unpacked(NamedTuple):
    """What came of an archive: the files made, and what was left out."""

    files: tuple[Path, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class Source:
    """A file or folder of the host, the name it gets in the archive, and its permissions and owner there."""

    path: Path
    name: str
    is_recursive: bool = False
    #: For the file, or for every file below the folder; None keeps what they have.
    mode: int | None = None
    uid: int = 0
    gid: int = 0


class _Capped:
    """A stream that refuses to give more than so many bytes."""

    def __init__(self, stream: BinaryIO, max_bytes: int) -> None:
        self._stream = stream
        self._left = max_bytes

    def read(self, count: int) -> bytes:
        data = self._stream.read(count)
        self._left -= len(data)
        if self._left < 0:
            raise TwinError("archive_too_large", "the archive is larger than allowed", "Ask for less, or allow more.")
        return data


def unpack(archive: BinaryIO, folder: Path, max_bytes: int, max_entries: int = MAX_ENTRIES) -> Unpacked:
    """Unpack an untrusted, uncompressed tar stream below a folder, which is made when missing.

    Only folders and regular files are made, with plain permissions and our own ids; nothing is written through a
    link. Links and devices are named in what is returned. Raise TwinError: `archive_unsafe` (a name that leads out of
    the folder), `archive_too_large`, `archive_too_many`, `archive_invalid`; files made until then stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    files: list[Path] = []
    skipped: list[Skipped] = []
    left = max_bytes
    try:
        for number, (archive_file, member) in enumerate(_members(archive, max_bytes)):
            parts = split_name(member.name)
            if parts is None:
                raise TwinError("archive_unsafe", f"{member.name!r} leads out of the folder", _UNSAFE_REMEDY)
            if number >= max_entries:
                raise TwinError("archive_too_many", f"the archive has more than {max_entries} entries", "Ask for less.")
            if not member.isdir() and not member.isreg():
                skipped.append(Skipped(member.name, _kind(member)))
                continue
            left -= member.size if member.isreg() else 0
            if left < 0:
                raise TwinError("archive_too_large", f"the files hold more than {max_bytes} bytes", "Allow more.")
            _unpack_member(archive_file, member, root, parts)
            if member.isreg():
                files.append(folder.joinpath(*parts))
    except (tarfile.TarError, EOFError) as error:
        raise TwinError("archive_invalid", f"the archive cannot be read: {error}", "Fetch it again.") from error
    except OSError as error:
        message = f"{error.filename or folder}: {error.strerror}"
        raise TwinError("archive_unwritable", message, "Choose an empty folder with enough space.") from error
    finally:
        os.close(root)
    return Unpacked(tuple(files), tuple(skipped))


def _members(archive: BinaryIO, max_bytes: int) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    capped = _Capped(archive, max_bytes + _OVERHEAD)
    with tarfile.open(fileobj=capped, mode="r|") as opened:  # type: ignore[call-overload]
        for member in opened:
            yield opened, member
            # In stream mode every member would be remembered.
            opened.members = []


def _kind(member: tarfile.TarInfo) -> str:
    if member.issym():
        return "symbolic link"
    return "hard link" if member.islnk() else "device"


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, root: int, parts: list[str]) -> None:
    if member.isdir():
        os.close(descend(root, parts, is_made=True))
        return
    if not parts:
        raise TwinError("archive_unsafe", f"{member.name!r} is the folder itself, not a file", _UNSAFE_REMEDY)
    parent = descend(root, parts[:-1], is_made=True)
    try:
        try:
            os.unlink(parts[-1], dir_fd=parent)
        except FileNotFoundError:
            pass  # Nothing to replace.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(parts[-1], flags, (member.mode & 0o755) | 0o600, dir_fd=parent)
    finally:
        os.close(parent)
    with open(descriptor, "wb") as file:
        content = archive.extractfile(member)
        assert content is not None
        while chunk := content.read(_CHUNK):
            file.write(chunk)


def pack(sources: Iterable[Source], archive: BinaryIO) -> tuple[Skipped, ...]:
    """Write files of the host as a tar stream for a twin; return what was left out (devices, sockets, pipes).

    A path that is itself a link is followed, because it was named; links below a folder are packed as links. Raise
    TwinError: `source_missing`, `source_is_folder` (without `is_recursive`), `source_unreadable`.
    """
    skipped: list[Skipped] = []
    with tarfile.open(fileobj=archive, mode="w|", format=tarfile.PAX_FORMAT) as opened:
        for source in sources:
            try:
                path = source.path.resolve(strict=True)
            except (OSError, RuntimeError) as error:
                raise TwinError("source_missing", f"{source.path} is not there", "Look at the path.") from error
            if path.is_dir() and not source.is_recursive:
                message = f"{source.path} is a folder"
                raise TwinError("source_is_folder", message, "Ask for it with `recursive: true`.")
            try:
                for name, place in _walk(path, source.name):
                    _pack_one(opened, source, name, place, skipped)
            except OSError as error:
                message = f"{error.filename or source.path}: {error.strerror}"
                raise TwinError("source_unreadable", message, "Look at its permissions.") from error
    return tuple(skipped)


def _walk(path: Path, name: str) -> Iterator[tuple[str, Path]]:
    yield name, path
    if path.is_dir() and not path.is_symlink():
        for child in sorted(path.iterdir()):
            yield from _walk(child, f"{name}/{child.name}")


def _pack_one(archive: tarfile.TarFile, source: Source, name: str, path: Path, skipped: list[Skipped]) -> None:
    entry = archive.gettarinfo(path, name)
    if entry is None or not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
        skipped.append(Skipped(name, "device"))
        return
    entry.uid, entry.gid, entry.uname, entry.gname = source.uid, source.gid, "", ""
    if source.mode is not None and not entry.isdir():
        entry.mode = source.mode
    if entry.isreg():
        with open(path, "rb") as file:
            archive.addfile(entry, file)
    else:
        archive.addfile(entry)
