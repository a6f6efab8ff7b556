"""Allow one writer at a time for a log, across processes.

The library `filelock` does not fit: on file systems without locks it fails, or leaves a lock that outlives a crash, and
it does not say which process holds a lock.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # no such locks on this platform: a second writer goes unnoticed
    fcntl = None  # type: ignore[assignment]

#: Errors of file systems without locks; there too, a second writer goes unnoticed.
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
        try:
            if fcntl is not None:
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

    def release(self) -> None:
        """Allow the next writer. The file stays: another process may have it open and wait for its lock."""
        os.close(self._descriptor)
