"""Write the log of one session: one line per record, each in one `write`, numbered without gaps.

Nothing that happens to the disk reaches the session. A line that cannot be written is counted; the next one that can
says in `dropped` how many were lost before it, and standard error says so once.
"""

from __future__ import annotations

import errno
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from time import monotonic
from types import TracebackType
from typing import Literal, Self

from amplifier_kit.guard.private_files import make_private
from amplifier_kit.guard.redaction import process_redactor
from amplifier_kit.log.blobs import BlobStore, share_folder, sync_path
from amplifier_kit.log.encoding import digest
from amplifier_kit.log.files import NAME, LogFiles, Tail, parse, read_tail
from amplifier_kit.log.lock import LogLock, SessionLogBusy
from amplifier_kit.log.message_lists import ListTracker, load_lists, save_lists
from amplifier_kit.log.record import FACTS, IDS, Record, compose, has_hash
from amplifier_kit.log.references import Shortener

#: Above this size a file is rotated: a normal session is one file.
MAX_BYTES = 256 * 1024 * 1024

#: Seconds after which the file is looked at again: it may have been removed.
LOOK_EVERY = 0.1

Fsync = Literal["close", "always", "never"]


class SessionLog:
    """Append records to the log in a session's folder; use `write` as a log sink, and close it when all is over.

    Several threads may write. Memory does not grow with the log.
    """

    #: How bytes reach the file; tests of full disks replace it.
    _os_write: Callable[[int, bytes], int] = staticmethod(os.write)

    def __init__(
        self,
        directory: Path | str,
        *,
        name: str = NAME,
        blobs: Path | None = None,
        fsync: Fsync = "close",
        verify: bool = False,
        redactor: Callable[[Record], Record | None] | None = None,
        clock: Callable[[], str] | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Open the log, making the folder and continuing where an earlier run ended, however it ended.

        `blobs` is the blob folder of the root session, for a child. `fsync` says when to force lines to disk: lines are
        safe from a crash of this process in any case. With `verify` every line carries the hash of the one before it.
        Every record passes `redactor` before it is written, the one of this process unless another is given; a record
        for which it returns None is left out.
        Raises SessionLogBusy when another process (or this one) is writing the log, ValueError for an unknown `fsync`.
        A folder that cannot be written is no error here either: every line tries again.
        """
        if fsync not in ("close", "always", "never"):
            raise ValueError(f"fsync must be 'close', 'always' or 'never', got {fsync!r}")
        self._files = LogFiles(Path(directory), name)
        self._shared_blobs = blobs
        self._fsync = fsync
        self._verify = verify
        self._redactor = redactor or process_redactor()
        self._clock = clock or _now
        self._max_bytes = max_bytes
        self._blobs = BlobStore(self._files.blobs, durable=fsync != "never")
        self._lists = ListTracker()
        self._shortener = Shortener(self._blobs, self._lists)
        self._guard = RLock()
        self._pending: deque[Record] = deque()
        self._writing = False
        self._closed = False
        self._process = _process
        self._descriptor: int | None = None
        self._lock: LogLock | None = None
        self._was_open = False
        self._size = 0
        #: Whether the file has to be looked at before the next line: at first, and after trouble or an interruption.
        self._unsure = True
        #: When it is looked at in any case.
        self._look_at = 0.0
        #: The last number given out, to a line or to a loss.
        self._seq = 0
        #: How many lines were lost since the last one that was written.
        self._dropped = 0
        self._last_line = b""
        #: What ends a line that was left unfinished.
        self._lead = b""
        self._told: set[tuple[str | None, int | None]] = set()
        try:
            self._open()
        except OSError as error:
            self._tell_of(error)

    @property
    def path(self) -> Path:
        """The file that is being written."""
        return self._files.active

    @property
    def seq(self) -> int:
        """The number of the last line, lost ones included."""
        return self._seq

    def write(self, record: Record) -> None:
        """Append one record, as `coordinator.log` builds them; it is in the file when this returns, or counted as lost.

        Raises ValueError after close() and RuntimeError in a forked process, whose lines would break the numbers.
        """
        with self._guard:
            if self._closed:
                raise ValueError(f"The session log {self.path} is closed")
            if self._process != _process:
                raise RuntimeError(f"The session log {self.path} belongs to another process, which forked this one")
            if self._writing:
                self._pending.append(record)  # a finalizer or signal handler logs while a line is being written
                return
            self._writing = True
            try:
                self._write_one(record)
                while self._pending:
                    self._write_one(self._pending.popleft())
            finally:
                self._writing = False

    def close(self) -> None:
        """Say what was lost, force what the policy asks for to disk, and let the next writer in; twice does nothing."""
        with self._guard:
            if self._closed:
                return
            if self._process == _process:
                self._say_what_was_lost()
                self._settle()
            self._closed = True
            self._let_go()

    def close_with(self, lacking: Callable[[], Iterable[Record]]) -> None:
        """Ask what the log lacks, write that and close it; no line of another thread comes between.

        It may be called by any thread; on a closed log it does nothing. Raises as `lacking` does, with the log closed.
        """
        with self._guard:
            if self._closed:
                return
            try:
                for record in lacking():
                    self.write(record)
            finally:
                self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- one line --

    def _write_one(self, record: Record) -> None:
        redacted = self._redact(record)
        if redacted is None:
            return
        record = redacted
        seq = self._seq + 1
        try:
            if self._unsure or self._descriptor is None or monotonic() > self._look_at:
                self._be_ready()
                seq = self._seq + 1
            self._unsure = True
            prev = digest(self._last_line) if self._verify else None
            line = compose(record, seq, self._dropped, prev, self._clock, self._shortener.shorten)
            if self._fsync == "always":
                self._blobs.sync()
            written = self._append(line)
        except (OSError, SessionLogBusy) as error:
            self._seq = seq
            self._dropped += 1
            self._tell_of(error)
            return
        if self._shortener.written:
            self._shortener.confirm()
        self._dropped = 0
        self._seq = seq
        self._last_line = line
        # The size last: interrupted before this, the next line finds that it is wrong and looks at the file again.
        self._size += written
        self._unsure = self._size >= self._max_bytes
        if self._fsync == "always":
            self._force()

    def _redact(self, record: Record) -> Record | None:
        """Return what may be written of a record: not its payload, when the redactor fails."""
        try:
            return self._redactor(record)
        except Exception:
            kept = {key: record[key] for key in ("ts", "lvl", "schema", "event", *IDS, *FACTS) if key in record}
            return {**kept, "data": {}, "redaction": {"applied": False, "error": "scrub_failed"}}

    def _append(self, line: bytes) -> int:
        """Write a line, all of it or nothing, and return how many bytes that took; raises OSError."""
        assert self._descriptor is not None
        content = b"%b%b\n" % (self._lead, line)
        written = self._os_write(self._descriptor, content)
        missing = len(content) - written
        if missing > 1:
            self._take_back(written)
            raise OSError(errno.ENOSPC, f"only {written} of {len(content)} bytes could be written")
        self._lead = b"\n" if missing else b""
        return written

    def _take_back(self, written: int) -> None:
        """Remove the beginning of a line that did not fit, or else see to it that nothing is glued to it."""
        assert self._descriptor is not None
        try:
            if os.fstat(self._descriptor).st_size == self._size + written:
                os.ftruncate(self._descriptor, self._size)
                return
        except OSError:
            # No regular file, or a disk that is gone: the half line stays, and readers skip it.
            pass
        self._size += written
        self._lead = b"\n"

    # -- the file --

    def _be_ready(self) -> None:
        """See to it that there is a file to write to, and that it is the one readers look at; raises OSError."""
        self._look_at = monotonic() + LOOK_EVERY
        self._shortener.written.clear()  # of a line that was never written
        if self._descriptor is not None:
            state = os.fstat(self._descriptor)
            if state.st_nlink == 0:  # removed from under us: writing on would lose every line without a word
                self._let_go()
                self._blobs.forget()
                self._lists.forget()
            elif state.st_size != self._size:  # interrupted after a line was written, or somebody else was here
                if state.st_size < self._size:
                    self._lists.forget()
                self._go_on_after(read_tail(self._files))
        if self._descriptor is None:
            self._open()
        elif self._size >= self._max_bytes:
            self._rotate()

    def _open(self) -> None:
        files = self._files
        if not self._was_open:
            # Only the first time: a folder that is removed while the session runs was removed on purpose.
            make_private(files.directory)
        if self._lock is None:
            self._lock = LogLock(files.lock, files.active)
        if self._shared_blobs is not None:
            share_folder(files.blobs, self._shared_blobs)
        tail = read_tail(files)
        self._open_file()
        self._go_on_after(tail)
        self._was_open = True
        self._lists.restore(load_lists(files.lists, files.active))

    def _open_file(self) -> None:
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _go_on_after(self, tail: Tail) -> None:
        assert self._descriptor is not None
        self._size = os.fstat(self._descriptor).st_size
        self._last_line, self._lead = tail.line, tail.lead
        # A chain that has begun goes on, whoever opens the log: a line without a hash would look like one put there.
        self._verify = self._verify or has_hash(tail.line)
        if not self._was_open:
            self._seq = tail.seq + self._dropped
        elif tail.seq > self._seq:
            self._seq, self._dropped = tail.seq, 0

    def _rotate(self) -> None:
        """Set the file aside and begin the next one; when that fails, go on with the one there is."""
        files = self._files
        number = max(files.numbers(), default=0) + 1
        try:
            if self._lead:
                self._size += self._append(b"")  # ends the unfinished line
            if self._fsync != "never":
                self._force()
            os.rename(files.active, files.rotated(number))
        except OSError as error:
            self._tell_of(error, "rotate it")
            self._max_bytes *= 2  # tried again later, not before every line
            return
        # Each file can be understood without those before it, which may be deleted one day.
        self._lists.forget()
        self._close_file()
        self._open_file()

    def _close_file(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _let_go(self) -> None:
        """Close the file and let others have it."""
        self._close_file()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    # -- the end, and trouble --

    def _say_what_was_lost(self) -> None:
        lost = self._dropped
        if not lost:
            return
        record: Record = {"lvl": "ERROR", "event": "log:entry", "data": {"message": f"{lost} lines were lost"}}
        last = parse(self._last_line) or {}
        self._write_one({**record, **{key: last[key] for key in ("session_id", "parent_id") if key in last}})
        if self._dropped:
            _say(f"amplifier: session log {self.path}: it ends with {lost} lines lost.\n")

    def _settle(self) -> None:
        """Force everything to disk and note the lists, as far as that is possible."""
        if self._descriptor is None:
            return
        try:
            if self._fsync != "never":
                self._blobs.sync()
                self._force()
                sync_path(self._files.directory)
            if chains := self._lists.remembered():
                save_lists(self._files.lists, self.path, self._last_line, chains)
        except OSError as error:
            self._tell_of(error, "finish it")

    def _force(self) -> None:
        assert self._descriptor is not None
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a pipe or a device, which have nothing to force
                self._tell_of(error, "force it to disk")

    def _tell_of(self, error: Exception, what: str | None = None) -> None:
        """Say what is wrong on standard error, each thing once; nothing was lost when `what` says what failed."""
        kind = (what, getattr(error, "errno", None))
        if kind in self._told:
            return
        self._told.add(kind)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        loss = "" if what else "; lines are lost until this is mended, and the next one that fits says how many"
        _say(f"amplifier: session log {self.path}: cannot {what or 'write'}: {reason}. The session goes on{loss}.\n")


#: Counts the forks that lead to this process: a fork is not the writer of the logs it inherits.
_process = 0


def _count_fork() -> None:
    global _process
    _process += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def _say(text: str) -> None:
    """Write to standard error at once, past any buffer that could fail again when the program ends."""
    stream = sys.stderr
    if stream is None:
        return
    try:
        try:
            descriptor = stream.fileno()
        except (AttributeError, OSError, ValueError):  # replaced by something that is no file
            stream.write(text)
        else:
            os.write(descriptor, text.encode())
    except (OSError, ValueError):
        # Standard error is full or closed as well: there is nobody left to tell.
        pass


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
