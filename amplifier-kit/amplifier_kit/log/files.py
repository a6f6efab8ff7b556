"""The files of one log: the one being written, the rotated ones before it, the lock, and how a file ends."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from amplifier_kit.log.record import decode
from amplifier_kit.named_tuple import NamedTuple

NAME = "events.jsonl"

_CHUNK = 65_536


class LogFiles:
    """The paths of a log: `events.1.jsonl`, the oldest, `events.2.jsonl` and so on, then `events.jsonl`."""

    def __init__(self, directory: Path, name: str = NAME) -> None:
        self.directory = directory
        self.active = directory / name
        self._pattern = re.compile(rf"{re.escape(self.active.stem)}\.([1-9][0-9]*){re.escape(self.active.suffix)}")

    @classmethod
    def at(cls, location: Path | str) -> LogFiles:
        """Return the log of a session's folder, or of the file that is being written."""
        path = Path(location)
        return cls(path.parent, path.name) if path.suffix == ".jsonl" and not path.is_dir() else cls(path)

    @property
    def blobs(self) -> Path:
        """The folder of large values; in a child session's folder, a link to the root session's."""
        return self.directory / "blobs"

    @property
    def lock(self) -> Path:
        return self.active.with_suffix(".lock")

    @property
    def lists(self) -> Path:
        """The lists that the writer wrote last; the file may be deleted at any time."""
        return self.active.with_suffix(".lists")

    def rotated(self, number: int) -> Path:
        return self.directory / f"{self.active.stem}.{number}{self.active.suffix}"

    def numbers(self) -> list[int]:
        """Return the numbers of the rotated files that exist, the oldest first."""
        try:
            names = os.listdir(self.directory)
        except OSError:
            return []
        return sorted(int(match[1]) for name in names if (match := self._pattern.fullmatch(name)))

    def newest_first(self) -> Iterator[Path]:
        """Yield the files from the one being written back to the oldest."""
        yield self.active
        for number in reversed(self.numbers()):
            yield self.rotated(number)


class Tail(NamedTuple):
    """The end of a log: its last number and whole line, and a newline in `lead` if the file does not end with one."""

    seq: int
    line: bytes
    lead: bytes


def read_tail(files: LogFiles) -> Tail:
    """Read the end of a log, ignoring a line that a crash left unfinished; raises OSError."""
    line = b""
    lead = b""
    for path in files.newest_first():
        try:
            with path.open("rb") as file:
                if path == files.active:
                    lead = _lead(file)
                for candidate in _lines_backwards(file):
                    if line and b'"seq"' not in candidate:
                        continue  # a published log has lines without numbers
                    record = parse(candidate)
                    if record is None:
                        continue
                    line = line or candidate
                    if isinstance(seq := record.get("seq"), int):
                        return Tail(seq, line, lead)
        except FileNotFoundError:
            continue
    return Tail(0, line, lead)


def parse(line: bytes) -> dict[str, Any] | None:
    """Return the record on a line, or None if the line is torn or not a record."""
    try:
        record = decode(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "event" in record else None


def _lead(file: BinaryIO) -> bytes:
    """Return a newline if the last line has none."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return b""
    file.seek(size - 1)
    return b"" if file.read(1) == b"\n" else b"\n"


def _lines_backwards(file: BinaryIO) -> Iterator[bytes]:
    """Yield the non-empty lines of a file, the last one first, without newlines."""
    position = file.seek(0, os.SEEK_END)
    rest: list[bytes] = []  # pieces of a line whose start was not read yet, the last piece first
    while position:
        size = min(_CHUNK, position)
        position -= size
        file.seek(position)
        first, *others = file.read(size).split(b"\n")
        for end in reversed(others):
            line = end + b"".join(reversed(rest))
            rest = []
            if line:
                yield line
        rest.append(first)
    if line := b"".join(reversed(rest)):
        yield line


# -- one writer at a time, across processes --

#: Errors of file systems without locks, on which a second writer goes unnoticed. The library `filelock` fails there, or
#: leaves a lock that outlives a crash, and it does not say which process holds a lock.
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class SessionLogBusy(RuntimeError):
    """Another writer has this log open; `pid` is its process, None if unknown."""

    def __init__(self, path: Path, pid: int | None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        if pid == os.getpid():
            who = f"this process ({pid})"
        super().__init__(
            f"The session log {path} is being written by {who} already, and a session has one writer. "
            "Wait until that session ends, stop it, or start (or fork) another one"
        )
        self.path = path
        self.pid = pid


class LogLock:
    """Hold the lock of one log until `release`, or until the process ends."""

    def __init__(self, path: Path, log: Path) -> None:
        """Lock the file `path` for `log`, and write the id of this process into it.

        Raises SessionLogBusy when the lock is held already, OSError when the file cannot be opened.
        """
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        state = os.fstat(self._descriptor)
        #: What the file was like, for `restore`.
        self._before = os.pread(self._descriptor, 32, 0), (state.st_atime_ns, state.st_mtime_ns)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._descriptor, 32, 0).strip()
            os.close(self._descriptor)
            raise SessionLogBusy(log, int(pid) if pid.isdigit() else None) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(self._descriptor)
                raise
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        except OSError:
            # On a full disk the lock still holds; the next process only learns less about it.
            pass

    def restore(self) -> None:
        """Leave the file as it was: nothing was written to the log."""
        content, times = self._before
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, content, 0)
            os.utime(self._descriptor, ns=times)
        except OSError:
            pass  # on a full disk the file says who had the log last

    def release(self) -> None:
        """Allow the next writer. The file stays: another process may have it open and wait for its lock."""
        os.close(self._descriptor)
