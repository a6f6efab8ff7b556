"""Read the files that go into a prompt, and cache them until they change.

`access.py`, the only caller, decides whether a file may be read.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Final

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.prompt.mentions import find_mentions
from amplifier_kit.guard.files.place import FileError, Place, Roots, open_file
from amplifier_kit.struct import FrozenStruct

__all__ = ["MAX_ENTRIES", "MAX_FILE_BYTES", "TextFile", "TextFiles", "UnusableFileError", "read_bytes", "readable_name"]

#: Longer files are cut.
MAX_FILE_BYTES: Final = 512 * 1024
#: Longer listings of folders are cut.
MAX_ENTRIES: Final = 1000
#: Clocks of file systems are coarse: two changes within one tick have the same time.
_TICK_NS: Final = 2_000_000_000
#: Rules decide which paths are allowed; /proc and /sys are refused by the kit in any case.
_ANYWHERE: Final = Roots()


#: Returns whether a listing must not show a path.
IsHidden = Callable[[str], bool]
#: Returns such a predicate; None if nothing is hidden.
Hiding = Callable[[], IsHidden | None]


class UnusableFileError(FoundationError):
    """A file cannot be part of a prompt; the text is the reason, without the file's name."""

    code = "file_unusable"


class TextFile(FrozenStruct):
    """The text of a file, or the listing of a folder, as it goes into a prompt."""

    path: Path
    text: str
    #: The hash of `text` in UTF-8: that of the file, unless it has a byte order mark or was cut.
    sha256: str
    is_folder: bool = False

    @cached_property
    def mentions(self) -> tuple[str, ...]:
        """The mentions in the text, each once; the listing of a folder has none."""
        if self.is_folder:
            return ()
        return tuple(dict.fromkeys(mention.text for mention in find_mentions(self.text)))


class _Read(FrozenStruct):
    state: tuple[int, ...]
    #: Whether every later change changes the state.
    settled: bool
    file: TextFile


class TextFiles:
    """Read and cache files and folders; thread-safe.

    A file is read again if its time of change, size or inode differ, or if it changed within the last two seconds.
    """

    def __init__(self) -> None:
        self._read: dict[Path, _Read] = {}

    def read(self, place: Place, hiding: Hiding | None = None) -> TextFile:
        """Return the text of a file, cut after MAX_FILE_BYTES, or the listing of a folder, cut after MAX_ENTRIES.

        A cut is noted at the end of the text. `hiding` returns the predicate for entries to leave out. The open place
        is read, even if a link has changed meanwhile. Raises UnusableFileError for a file that is missing, unreadable,
        not regular (a pipe would never end), binary, or not UTF-8.
        """
        path = place.path
        try:
            state = _state(_status(place))
            known = self._read.get(path)
            is_folder = stat.S_ISDIR(state[0])
            is_hidden = hiding() if is_folder and hiding is not None else None
            if known is not None and known.settled and known.state == state and is_hidden is None:
                return known.file
            now = time.time_ns()
            text = _listing(place, is_hidden) if is_folder else _content(place)
        except FileError as error:
            self._read.pop(path, None)
            raise UnusableFileError(f"cannot be read: {error}") from error
        except OSError as error:
            self._read.pop(path, None)
            raise UnusableFileError(f"cannot be read: {error.strerror or error}") from error
        file = _text_file(path, text, is_folder)
        if known is not None and known.file.sha256 == file.sha256:
            file = known.file
        self._read[path] = _Read(state, now - state[-1] > _TICK_NS, file)
        return file


def read_bytes(place: Place, largest: int) -> bytes:
    """Return the first `largest` bytes of a regular file; raises UnusableFileError as `TextFiles.read` does."""
    try:
        with open_file(place, _ANYWHERE) as file:
            return file.read(largest)
    except FileError as error:
        raise UnusableFileError(f"cannot be read: {error}") from error
    except OSError as error:
        raise UnusableFileError(f"cannot be read: {error.strerror or error}") from error


def readable_name(name: str | Path) -> str:
    """Return a file name as printable text: bytes that are not UTF-8 and control characters become `?`."""
    return "".join(char if char.isprintable() else "?" for char in str(name))


def _state(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_mode,
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _text_file(path: Path, text: str, is_folder: bool) -> TextFile:
    import hashlib

    return TextFile(path, text, hashlib.sha256(text.encode("utf-8")).hexdigest(), is_folder)


def _status(place: Place) -> os.stat_result:
    status = place.status()
    if status is None:
        raise FileError("not_found", "there is no such file")
    return status


def _content(place: Place) -> str:
    with open_file(place, _ANYWHERE) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(MAX_FILE_BYTES + 1)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnusableFileError("not UTF-8 but UTF-16: save the file as UTF-8")
    if b"\0" in content:
        raise UnusableFileError("a binary file, not text")
    if len(content) <= MAX_FILE_BYTES:
        return _decoded(content)
    shown = content[:MAX_FILE_BYTES]
    while shown and content[len(shown)] & 0xC0 == 0x80:  # not in the middle of a character
        shown = shown[:-1]
    return f"{_decoded(shown)}\n[cut: the first {len(shown)} of {max(size, len(content))} bytes]"


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnusableFileError(f"not UTF-8 (line {line}: {error.reason}): save the file as UTF-8") from error


def _listing(place: Place, is_hidden: IsHidden | None) -> str:
    """Return one line per entry, sorted by name, so that the same folder always gives the same text."""
    folder = os.open(place.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_dir()) for entry in entries)
    finally:
        os.close(folder)
    if is_hidden is not None:
        found = [(name, is_dir) for name, is_dir in found if not is_hidden(str(place.path / name))]
    lines = [f"{'DIR' if is_dir else 'FILE'} {readable_name(name)}" for name, is_dir in found[:MAX_ENTRIES]]
    if len(found) > MAX_ENTRIES:
        lines.append(f"[cut: the first {MAX_ENTRIES} of {len(found)} entries]")
    return "\n".join(lines)
