"""Write the log of one session: every record is masked, numbered without gaps, and written as one line in one `write`.

Disk errors never reach the session. A line that cannot be written is counted; the next line that can be written has
the number of lost lines in `dropped`, and one message goes to standard error.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from time import monotonic
from types import TracebackType
from typing import Self

from amplifier_kit.guard.private_files import make_private
from amplifier_kit.guard.redaction.redactor import process_redactor, without_data
from amplifier_kit.log.blobs import BlobStore, share_folder, sync_path
from amplifier_kit.log.files import NAME, LogFiles, LogLock, SessionLogBusy, Tail, parse, read_tail
from amplifier_kit.log.record import Record, compose, digest, has_hash
from amplifier_kit.log.references import ListTracker, Shortener, load_lists, save_lists

#: A larger file is rotated; a normal session is one file.
MAX_BYTES = 256 * 1024 * 1024

#: Seconds after which the file is checked again: it may have been removed.
CHECK_EVERY = 0.1


class SessionLog:
    """Append records to the log in a session's folder; use `write` as a log sink, and close it at the end.

    Several threads may write. Memory does not grow with the log.
    """

    #: Tests of full disks replace it.
    _os_write: Callable[[int, bytes], int] = staticmethod(os.write)

    def __init__(
        self,
        directory: Path | str,
        *,
        name: str = NAME,
        blobs: Path | None = None,
        verify: bool = False,
        redactor: Callable[[Record], Record | None] | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Open the log, creating the folder if necessary, and continue after the last line of an earlier run.

        `blobs` is the blob folder of the root session, for a child. With `verify` every line has the hash of the one
        before it. Every record passes `redactor`, by default that of this process; a record for which it returns None
        is left out. Lines survive a crash of this process; `close` forces them to disk. Raises SessionLogBusy when
        another process (or this one) is writing the log. A folder that cannot be written is not an error here: every
        line tries again.
        """
        self._files = LogFiles(Path(directory), name)
        self._shared_blobs = blobs
        self._verify = verify
        self._redactor = redactor or process_redactor()
        self._max_bytes = max_bytes
        self._blobs = BlobStore(self._files.blobs)
        self._lists = ListTracker()
        self._shortener = Shortener(self._blobs, self._lists)
        self._mutex = RLock()
        self._pending: deque[Record] = deque()
        self._writing = False
        self._closed = False
        self._process = os.getpid()
        self._descriptor: int | None = None
        self._lock: LogLock | None = None
        self._was_open = False
        #: Whether anything was written, or was to be written.
        self._was_used = False
        self._size = 0
        #: Whether the file must be checked before the next line: at first, and after an error or an interruption.
        self._must_check = True
        self._next_check = 0.0
        #: The last number used, by a line or a loss.
        self._seq = 0
        #: How many lines were lost since the last one that was written.
        self._dropped = 0
        self._last_line = b""
        #: A newline if the last line in the file has none.
        self._lead = b""
        self._reported: set[tuple[str | None, int | None]] = set()
        try:
            self._open()
        except OSError as error:
            self._report(error)

    @property
    def path(self) -> Path:
        """The file that is being written."""
        return self._files.active

    @property
    def seq(self) -> int:
        """The number of the last line, lost ones included."""
        return self._seq

    def write(self, record: Record) -> None:
        """Append one record as `coordinator.log` builds it; afterwards it is in the file, or counted as lost.

        Raises ValueError after close() and RuntimeError in a forked process, whose lines would break the numbering.
        """
        with self._mutex:
            if self._closed:
                raise ValueError(f"The session log {self.path} is closed")
            if self._process != os.getpid():
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
        """Report lost lines, force the file to disk, and release the log; may be called twice.

        A log to which nothing was written is left exactly as it was.
        """
        with self._mutex:
            if self._closed:
                return
            if self._process == os.getpid() and self._was_used:
                self._report_losses()
                self._sync()
            elif self._lock is not None and self._process == os.getpid():
                self._lock.restore()
            self._closed = True
            self._release()

    def close_with(self, last_records: Callable[[], Iterable[Record]]) -> None:
        """Write the last records and close; no line of another thread comes between. On a closed log it does nothing.

        Raises what `last_records` raises, with the log closed.
        """
        with self._mutex:
            if self._closed:
                return
            try:
                for record in last_records():
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
        self._was_used = True
        seq = self._seq + 1
        try:
            if self._must_check or self._descriptor is None or monotonic() > self._next_check:
                self._check_file()
                seq = self._seq + 1
            self._must_check = True
            prev = digest(self._last_line) if self._verify else None
            line = compose(redacted, seq, self._dropped, prev, _now, self._shortener.shorten)
            written = self._append(line)
        except (OSError, SessionLogBusy) as error:
            self._seq = seq
            self._dropped += 1
            self._report(error)
            return
        if self._shortener.written:
            self._shortener.confirm()
        self._dropped = 0
        self._seq = seq
        self._last_line = line
        # The size comes last: after an interruption before this, the next line finds it wrong and checks the file.
        self._size += written
        self._must_check = self._size >= self._max_bytes

    def _redact(self, record: Record) -> Record | None:
        """Return a record without secrets; without its payload, when the redactor fails."""
        try:
            return self._redactor(record)
        except Exception:
            return without_data(record)

    def _append(self, line: bytes) -> int:
        """Write a line, all of it or nothing, and return the number of bytes; raises OSError."""
        assert self._descriptor is not None
        content = b"%b%b\n" % (self._lead, line)
        written = self._os_write(self._descriptor, content)
        missing = len(content) - written
        if missing > 1:
            # If this fails, the next line finds the file longer than expected, and starts a new line.
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
            raise OSError(errno.ENOSPC, f"only {written} of {len(content)} bytes could be written")
        self._lead = b"\n" if missing else b""
        return written

    # -- the file --

    def _check_file(self) -> None:
        """Make sure that the open file is the one readers see, and rotate it if it is too large; raises OSError."""
        self._next_check = monotonic() + CHECK_EVERY
        self._shortener.written.clear()  # of a line that was never written
        if self._descriptor is not None:
            state = os.fstat(self._descriptor)
            if state.st_nlink == 0:  # it was removed, and its lines would be lost
                self._release()
                self._lists.forget()
            elif state.st_size != self._size:  # after an interruption, or a write by another process
                if state.st_size < self._size:
                    self._lists.forget()
                self._continue_after(read_tail(self._files))
        if self._descriptor is None:
            self._open()
        elif self._size >= self._max_bytes:
            self._rotate()

    def _open(self) -> None:
        files = self._files
        if not self._was_open:
            # Only at first: a folder that is removed while the session runs was removed on purpose.
            make_private(files.directory)
        if self._lock is None:
            self._lock = LogLock(files.lock, files.active)
        if self._shared_blobs is not None:
            share_folder(files.blobs, self._shared_blobs)
        tail = read_tail(files)
        self._open_file()
        self._continue_after(tail)
        self._was_open = True
        self._lists.restore(load_lists(files.lists, files.active))

    def _open_file(self) -> None:
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _continue_after(self, tail: Tail) -> None:
        assert self._descriptor is not None
        self._size = os.fstat(self._descriptor).st_size
        self._last_line, self._lead = tail.line, tail.lead
        # A hash chain continues even without `verify`: a line without a hash would look inserted.
        self._verify = self._verify or has_hash(tail.line)
        if not self._was_open:
            self._seq = tail.seq + self._dropped
        elif tail.seq > self._seq:
            self._seq, self._dropped = tail.seq, 0

    def _rotate(self) -> None:
        """Rename the file and start the next one; if that fails, continue with the current one."""
        assert self._descriptor is not None
        files = self._files
        number = max(files.numbers(), default=0) + 1
        try:
            if self._lead:
                self._size += self._append(b"")  # ends the unfinished line
            try:
                os.fsync(self._descriptor)
            except OSError as error:  # not every file system can; the lines are written all the same
                self._report(error, "force it to disk")
            os.rename(files.active, files.rotated(number))
        except OSError as error:
            self._report(error, "rotate it")
            self._max_bytes *= 2  # tried again later, not before every line
            return
        # Each file can be read without the earlier ones, which may be deleted.
        self._lists.forget()
        self._close_file()
        self._open_file()

    def _close_file(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _release(self) -> None:
        self._close_file()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    # -- closing and errors --

    def _report_losses(self) -> None:
        lost = self._dropped
        if not lost:
            return
        record: Record = {"lvl": "ERROR", "event": "log:entry", "data": {"message": f"{lost} lines were lost"}}
        last = parse(self._last_line) or {}
        self._write_one({**record, **{key: last[key] for key in ("session_id", "parent_id") if key in last}})
        if self._dropped:
            _write_to_stderr(f"amplifier: session log {self.path}: it ends with {lost} lines lost.\n")

    def _sync(self) -> None:
        """Force everything to disk and save the lists, as far as possible."""
        if self._descriptor is None:
            return
        try:
            self._blobs.sync()
            os.fsync(self._descriptor)
            sync_path(self._files.directory)
            if chains := self._lists.remembered():
                save_lists(self._files.lists, self.path, self._last_line, chains)
        except OSError as error:
            self._report(error, "finish it")

    def _report(self, error: Exception, what: str | None = None) -> None:
        """Write an error to standard error, each kind once; unless `what` says what else failed, a line was lost."""
        kind = (what, getattr(error, "errno", None))
        if kind in self._reported:
            return
        self._reported.add(kind)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        loss = "" if what else "; lines are lost until this is fixed, and the next line written says how many"
        _write_to_stderr(
            f"amplifier: session log {self.path}: cannot {what or 'write'}: {reason}. The session continues{loss}.\n"
        )


def _write_to_stderr(text: str) -> None:
    """Write to standard error at once, past any buffer that could fail again when the program ends."""
    try:
        try:
            os.write(sys.stderr.fileno(), text.encode())
        except (AttributeError, io.UnsupportedOperation):  # closed, or replaced by an object without a file
            if sys.stderr is not None:
                sys.stderr.write(text)
    except (OSError, ValueError):
        # Standard error is full or closed too: the error cannot be reported anywhere.
        pass


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
