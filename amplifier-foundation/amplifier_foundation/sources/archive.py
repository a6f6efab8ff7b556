"""Unpack untrusted zip archives: nothing is written outside the folder, and the size is limited."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from amplifier_foundation.sources.content import NOT_CONTENT
from amplifier_foundation.sources.fetched import SourceError

if TYPE_CHECKING:
    import zipfile

#: How many bytes and how many files an archive may hold.
SIZE_LIMIT: int = 1024 * 1024 * 1024
COUNT_LIMIT: int = 50_000
_LINK_LIMIT: Final = 4096
_CHUNK: Final = 1024 * 1024


def unpack(archive: Path, folder: Path, shown: str, *, is_stopped: Callable[[], bool] = lambda: False) -> None:
    """Unpack an archive into an empty folder; raise SourceError, naming the source `shown`, for a bad one.

    Refused are paths that are absolute or lead out, links that do, special files, encrypted and damaged members,
    and more bytes or files than the limits. Left out is what is not content: git's data and compiled Python, which no
    hash covers. Blocks; ends soon after `is_stopped` says so. The caller removes what a failure leaves.
    """
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            if len(members) > COUNT_LIMIT:
                raise SourceError(f"{shown}: the archive has {len(members):,} files; the limit is {COUNT_LIMIT:,}")
            _Unpacking(opened, folder, shown, is_stopped).run(members)
    except FileNotFoundError as error:
        raise SourceError(f"{shown}: there is no file {archive}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise SourceError(f"{shown}: is not a readable zip archive: {error}") from error
    except OSError as error:
        raise SourceError(f"{shown}: cannot be unpacked: {error}") from error


class _Unpacking:
    """One archive on its way to disk."""

    def __init__(self, archive: zipfile.ZipFile, folder: Path, shown: str, is_stopped: Callable[[], bool]) -> None:
        self._archive = archive
        self._folder = folder
        self._shown = shown
        self._is_stopped = is_stopped
        self._size = 0

    def run(self, members: list[zipfile.ZipInfo]) -> None:
        links: list[tuple[Path, str]] = []
        for member in members:
            if member.filename == "./":  # the folder itself, which some programs pack too
                continue
            names = self._names(member)
            if NOT_CONTENT.intersection(names):
                continue
            path = self._folder.joinpath(*names)
            kind = stat.S_IFMT(member.external_attr >> 16)
            if member.is_dir():
                path.mkdir(parents=True, exist_ok=True)
            elif kind == stat.S_IFLNK:
                links.append((path, self._target(member)))
            elif kind in (0, stat.S_IFREG):
                self._write(member, path)
            else:
                raise self._refused(member, "is neither a file nor a folder nor a link")
        # Last, so that no file is written through a link.
        for path, target in links:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(target, path)
        for path, target in links:
            self._check_link(path, target)

    def _names(self, member: zipfile.ZipInfo) -> tuple[str, ...]:
        name = member.filename
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or name[1:2] == ":" or not path.parts:
            raise self._refused(member, "leads out of the archive")
        return path.parts

    def _write(self, member: zipfile.ZipInfo, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o755 if (member.external_attr >> 16) & stat.S_IXUSR else 0o644
        # Exclusive: a second member of the same name is an error, not a replacement.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "wb") as file, self._archive.open(member) as content:
            while chunk := content.read(_CHUNK):
                self._size += len(chunk)
                if self._size > SIZE_LIMIT:
                    raise SourceError(f"{self._shown}: unpacks to more than {SIZE_LIMIT:,} bytes, which is the limit")
                if self._is_stopped():
                    raise SourceError(f"{self._shown}: unpacking was stopped")
                file.write(chunk)

    def _target(self, member: zipfile.ZipInfo) -> str:
        with self._archive.open(member) as content:
            target = os.fsdecode(content.read(_LINK_LIMIT))
        if not target or target.startswith("/") or "\\" in target or "\0" in target:
            raise self._refused(member, f"is a link that leads out of the archive, to {target!r}")
        return target

    def _check_link(self, path: Path, target: str) -> None:
        root = os.path.realpath(self._folder)
        # Follows every link on the way: two harmless ones can lead out together.
        if not os.path.realpath(path).startswith(root + os.sep) and os.path.realpath(path) != root:
            name = path.relative_to(self._folder)
            raise SourceError(f"{self._shown}: {str(name)!r} is a link that leads out of the archive, to {target!r}")

    def _refused(self, member: zipfile.ZipInfo, why: str) -> SourceError:
        return SourceError(f"{self._shown}: {member.filename!r} {why}: the archive is not used")
