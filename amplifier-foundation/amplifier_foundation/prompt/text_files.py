"""Read the files that go into a prompt, once for as long as they do not change.

Nothing here decides whether a file may be read: `access.py` does, and alone uses this.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.prompt.mentions import find_mentions
from amplifier_kit.guard.files import FileError, Place, Roots, open_file

__all__ = ["MAX_ENTRIES", "MAX_FILE_BYTES", "TextFile", "TextFiles", "UnusableFileError", "read_bytes", "readable_name"]

#: More of one file is not shown.
MAX_FILE_BYTES: Final = 512 * 1024
#: More entries of one folder are not listed.
MAX_ENTRIES: Final = 1000
#: Clocks of file systems tick slowly: a file may change twice within one tick and look the same both times.
_TICK_NS: Final = 2_000_000_000
#: Rules decide where files may lie; what the kernel shows in /proc and /sys is refused all the same.
_ANYWHERE: Final = Roots()


#: Tells of a path whether it must not be named.
IsHidden = Callable[[str], bool]
#: Returns that, None when nothing is hidden.
Hiding = Callable[[], IsHidden | None]


class UnusableFileError(FoundationError):
    """A file cannot be part of a prompt; the text is the reason, without the file's name."""

    code = "file_unusable"


@dataclass(frozen=True)
class TextFile:
    """The text of one file, or the listing of one folder, as it goes into a prompt."""

    path: Path
    text: str
    #: Of `text` in UTF-8: of the file itself, unless it has a byte order mark or was cut.
    sha256: str
    is_folder: bool = False

    @cached_property
    def mentions(self) -> tuple[str, ...]:
        """Return what the text mentions, each once; names in the listing of a folder are no mentions."""
        if self.is_folder:
            return ()
        return tuple(dict.fromkeys(mention.text for mention in find_mentions(self.text)))


class _Read(NamedTuple):
    state: tuple[int, ...]
    #: Whether any later change must show in the state.
    settled: bool
    file: TextFile


class TextFiles:
    """Read files and folders, and remember them: what did not change is not read again.

    Changes show in time of change, size and inode. A file that changed within the last two seconds is read again even
    if these are the same. May be used by several threads.
    """

    def __init__(self) -> None:
        self._read: dict[Path, _Read] = {}

    def read(self, place: Place, hiding: Hiding | None = None) -> TextFile:
        """Return the text of a file, cut after MAX_FILE_BYTES, or the listing of a folder, cut after MAX_ENTRIES.

        A cut is said at the end of the text. Entries of a folder are left out that what `hiding` returns says so of.
        What is read lies at the place itself, whatever a link has been made to lead to meanwhile. Raises
        UnusableFileError for what is missing, unreadable, no regular file (a pipe would never end), binary, or not
        UTF-8.
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
    """Return a file's name as text that can be sent: bytes that are no UTF-8 and control characters become `?`."""
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
        raise UnusableFileError("a binary file, no text")
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
