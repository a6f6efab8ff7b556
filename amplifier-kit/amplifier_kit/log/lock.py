"""Let a log have one writer at a time, across processes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # no such locks on this platform: the second writer goes unnoticed
    fcntl = None  # type: ignore[assignment]

#: File systems without locks answer with one of these; there too, the second writer goes unnoticed.
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class SessionLogBusy(RuntimeError):
    """Somebody else is writing this log; `pid` says who, None when that cannot be told."""

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
    """Hold the lock on one log; it ends with the process, however that ends."""

    def __init__(self, path: Path, log: Path) -> None:
        """Take the lock of `log` by means of the file `path`.

        Raises SessionLogBusy when somebody else holds it, OSError when the file cannot be made.
        """
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _pid(self._descriptor)
            os.close(self._descriptor)
            raise SessionLogBusy(log, pid) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(self._descriptor)
                raise
        self._say_who()

    def _say_who(self) -> None:
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        except OSError:
            # On a full disk the lock still holds; whoever comes second is only told less.
            pass

    def release(self) -> None:
        """Let the next writer in. The file stays: removing it could take it from under somebody who waits."""
        os.close(self._descriptor)


def _pid(descriptor: int) -> int | None:
    try:
        return int(os.pread(descriptor, 32, 0))
    except (OSError, ValueError):
        return None
