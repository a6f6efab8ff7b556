"""Write new content to disk completely, then move it into place atomically.

Where the system supports it, the content has no name until then, so a killed process leaves nothing behind.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from typing import Final

from amplifier_kit.guard.files.walk import Place

__all__ = ["Staged", "Stopped", "hidden_name"]

_CHUNK: Final = 1 << 20
_NAMELESS: Final[int] = getattr(os, "O_TMPFILE", 0)
#: Errors of file systems without O_TMPFILE.
_UNSUPPORTED: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
#: A write drops the capabilities of a program, so they are not copied.
_DROPPED: Final = ("security.capability",)


class Stopped(Exception):
    """The caller cancelled the work; nothing was changed."""


class Staged:
    """New content, on disk but not in place yet. Always call `discard` at the end."""

    def __init__(
        self,
        place: Place,
        content: bytes,
        like: os.stat_result | None,
        stop: threading.Event,
        *,
        mode: int | None = None,
    ) -> None:
        """Write the content, with mode, owner and attributes of the file that is there now, if `like` says there is.

        The mode of a new file is `mode`, or the usual one.

        Raises OSError, also for a full disk, and Stopped; then nothing is left.
        """
        self._folder = os.dup(place.folder)
        self._file = -1
        self._name: str | None = None
        try:
            self._open(0o666 if like is None else 0o600)
            self._write(content, stop)
            if like is not None:
                self._resemble(place, like)
            elif mode is not None:
                os.fchmod(self._file, mode & 0o777)
            os.fsync(self._file)
        except BaseException:
            self.discard()
            raise

    def put(self, folder: int, name: str, *, is_new: bool) -> None:
        """Move the content into place atomically; with `is_new`, never over an existing file. Raises OSError."""
        if is_new:
            self._link(folder, name)
            return
        fresh = hidden_name()
        self._link(folder, fresh)
        try:
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(fresh, dir_fd=folder)
            raise

    def discard(self) -> None:
        """Remove content that was not put in place."""
        if self._name is not None:
            try:
                os.unlink(self._name, dir_fd=self._folder)
            except FileNotFoundError:
                pass  # it was moved into place
            self._name = None
        for descriptor in (self._file, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._folder = -1

    def _open(self, mode: int) -> None:
        flags = os.O_WRONLY | os.O_CLOEXEC
        if _NAMELESS and os.path.isdir("/proc/self/fd"):
            try:
                self._file = os.open(".", flags | _NAMELESS, mode, dir_fd=self._folder)
                return
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
        name = hidden_name()
        self._file = os.open(name, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=self._folder)
        self._name = name

    def _write(self, content: bytes, stop: threading.Event) -> None:
        view = memoryview(content)
        while view:
            if stop.is_set():
                raise Stopped
            view = view[os.write(self._file, view[:_CHUNK]) :]

    def _resemble(self, place: Place, like: os.stat_result) -> None:
        """Copy mode, owner and attributes, the latter two only where this process may."""
        for owner, group in ((like.st_uid, -1), (-1, like.st_gid)):
            try:
                os.fchown(self._file, owner, group)
            except PermissionError:
                pass  # only an administrator may give files away
        os.fchmod(self._file, stat.S_IMODE(like.st_mode) & 0o777)
        if not hasattr(os, "listxattr"):
            return
        try:
            old = os.open(place.name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
        except OSError:
            return  # unreadable or gone: its attributes are unknown
        try:
            for name in os.listxattr(old):
                if name not in _DROPPED:
                    _copy_attribute(old, self._file, name)
        except OSError:
            pass  # a file system without attributes
        finally:
            os.close(old)

    def _link(self, folder: int, name: str) -> None:
        if self._name is None:
            # With a folder given, Python follows the link of /proc to the nameless file.
            os.link(f"/proc/self/fd/{self._file}", name, dst_dir_fd=folder)
            return
        try:
            os.link(self._name, name, src_dir_fd=self._folder, dst_dir_fd=folder)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if os.access(name, os.F_OK, dir_fd=folder, follow_symlinks=False):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
            os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=folder)
            self._name = None


def hidden_name() -> str:
    """Return an unused temporary file name."""
    return f".amplifier-{os.urandom(8).hex()}.tmp"


def _copy_attribute(old: int, new: int, name: str) -> None:
    try:
        os.setxattr(new, name, os.getxattr(old, name))
    except OSError:
        pass  # kept where possible: some are the system's own
