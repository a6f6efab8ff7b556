"""Change one file or several: all of them, or none.

All new content is on disk before the first file changes, so a full disk fails the call before any change. If a later
file fails anyway, the earlier ones are restored. A process that is killed in between leaves every file complete, either
old or new, and at most a hidden temporary file.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Final

from amplifier_kit.guard.files.place import FileError, Place, Roots, as_file_error, is_unchanged
from amplifier_kit.named_tuple import NamedTuple

_CHUNK: Final = 1 << 20
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: A write drops the capabilities of a program, so they are not copied.
_DROPPED: Final = ("security.capability",)


class Stopped(Exception):
    """The caller cancelled the work; nothing was changed."""


#: Held from reading files to writing them, so that no other thread of this process changes them in between.
exclusive_access: Final = threading.Lock()


class Change(NamedTuple):
    """The new content of a place, and its status when the change was decided; None when nothing was there."""

    place: Place
    before: os.stat_result | None
    #: None removes the file.
    content: bytes | None
    #: The old content, to restore it; needed when several files change and this one is overwritten.
    original: bytes | None = None
    #: The mode of a new file, None for the usual one.
    mode: int | None = None


def check_writable(place: Place, roots: Roots) -> os.stat_result | None:
    """Return the status of a place that may be written, a regular file or nothing; raises FileError otherwise."""
    roots.check(place, "written")
    status = place.status()
    mode = 0 if status is None else status.st_mode
    if place.name == "." or stat.S_ISDIR(mode):
        raise FileError("is_directory", f"{place.named} is a folder")
    if status is not None and not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise FileError("special_file", f"{place.named} is not a regular file")
    if stat.S_ISREG(mode) and not _may_write(place):
        raise FileError("read_only", f"{place.named} is write-protected")
    return status


def _may_write(place: Place) -> bool:
    # Replacing a file needs no permission on the file itself, so its write protection is checked here.
    try:
        return os.access(place.name, os.W_OK, dir_fd=place.folder, effective_ids=True, follow_symlinks=False)
    except NotImplementedError:
        return os.access(place.path, os.W_OK)


def apply_changes(changes: Sequence[Change], roots: Roots, stop: threading.Event) -> None:
    """Apply all changes, each atomically; on FileError or Stopped, no file has changed.

    The one exception has the code `partial`: a change and the restore both failed; the message names the files.
    """
    with ExitStack() as stack:
        steps: list[_Step] = []
        for change in changes:
            with as_file_error(f"{change.place.named} cannot be written"):
                step = _Step(change, stop, is_undoable=len(changes) > 1)
            stack.callback(step.close)
            steps.append(step)
        if stop.is_set():
            raise Stopped
        for step in steps:
            step.verify(roots)
        begun: list[_Step] = []
        try:
            for step in steps:
                begun.append(step)
                step.verify(roots)
                with as_file_error(f"{step.change.place.named} cannot be written"):
                    step.apply()
        except BaseException as error:
            stuck = [step.change.place.named for step in reversed(begun) if not step.undo()]
            if stuck:
                raise FileError(
                    "partial", f"{error}. These files could not be restored and have changed: {', '.join(stuck)}"
                ) from error
            raise


class _Step:
    """One change, prepared."""

    def __init__(self, change: Change, stop: threading.Event, *, is_undoable: bool) -> None:
        self.change = change
        self._is_undoable = is_undoable
        self._is_done = False
        self._new: Staged | None = None
        self._old: Staged | None = None
        #: The name of a removed file until the change is final.
        self._aside: str | None = None
        self._made_folders: list[tuple[int, str]] = []
        if change.content is None:
            return
        place, status = change.place, change.before
        self._new = Staged(place, change.content, status, stop, mode=change.mode)
        if is_undoable and status is not None:
            assert change.original is not None
            try:
                self._old = Staged(place, change.original, status, stop)
            except BaseException:
                self.close()
                raise

    def verify(self, roots: Roots) -> None:
        """Raise FileError when the place has changed or moved."""
        place = self.change.place
        roots.check(place, "written")
        if not is_unchanged(self.change.before, place.status()):
            raise FileError("changed_meanwhile", f"{place.named} was changed by another process; read it again")

    def apply(self) -> None:
        """Change the place; raises OSError."""
        place = self.change.place
        if self._new is not None:
            made = self._made_folders
            place.make_folders(on_made=lambda folder, name: made.append((os.dup(folder), name)))
            self._new.put(place.folder, place.name, is_new=self.change.before is None)
        elif self._is_undoable:
            aside = hidden_name()
            os.rename(place.name, aside, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            self._aside = aside
        else:
            os.unlink(place.name, dir_fd=place.folder)
        self._is_done = True

    def undo(self) -> bool:
        """Restore the old state; return False when that fails."""
        place, status = self.change.place, self.change.before
        try:
            if self._aside is not None:
                os.rename(self._aside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
                self._aside = None
            elif self._is_done and self._old is not None and status is not None:
                self._old.put(place.folder, place.name, is_new=False)
                times = (status.st_atime_ns, status.st_mtime_ns)
                os.utime(place.name, ns=times, dir_fd=place.folder, follow_symlinks=False)
            elif self._is_done:
                os.unlink(place.name, dir_fd=place.folder)
            for folder, name in reversed(self._made_folders):
                os.rmdir(name, dir_fd=folder)
        except OSError:
            self._aside = None  # the file moved aside is the only copy left: keep it
            return False
        return True

    def close(self) -> None:
        """Remove staged content and backups."""
        for staged in (self._new, self._old):
            if staged is not None:
                staged.discard()
        if self._aside is not None:
            aside, self._aside = self._aside, None
            with as_file_error(f"{self.change.place.named} was moved to {aside} and cannot be removed"):
                os.unlink(aside, dir_fd=self.change.place.folder)
        for folder, _ in self._made_folders:
            os.close(folder)
        self._made_folders.clear()


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
        """Write the content, with mode, owner and attributes of the present file when `like` is its status.

        A new file gets `mode`, or the usual one. Raises OSError, also for a full disk, and Stopped; then nothing is
        left.
        """
        self._folder = os.dup(place.folder)
        self._name = hidden_name()
        self._file = -1
        try:
            self._file = os.open(self._name, _NEW, 0o666 if like is None else 0o600, dir_fd=self._folder)
            view = memoryview(content)
            while view:
                if stop.is_set():
                    raise Stopped
                view = view[os.write(self._file, view[:_CHUNK]) :]
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
            try:
                os.link(self._name, name, src_dir_fd=self._folder, dst_dir_fd=folder)
                os.unlink(self._name, dir_fd=self._folder)
                return
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                if os.access(name, os.F_OK, dir_fd=folder, follow_symlinks=False):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
        os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=folder)

    def discard(self) -> None:
        """Remove content that was not put in place; idempotent."""
        if self._folder < 0:
            return
        with suppress(FileNotFoundError):  # it was moved into place
            os.unlink(self._name, dir_fd=self._folder)
        for descriptor in (self._file, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._folder = -1

    def _resemble(self, place: Place, like: os.stat_result) -> None:
        """Copy mode, owner and attributes, the latter two only where this process may."""
        for owner, group in ((like.st_uid, -1), (-1, like.st_gid)):
            with suppress(PermissionError):  # only an administrator may give files away
                os.fchown(self._file, owner, group)
        os.fchmod(self._file, stat.S_IMODE(like.st_mode) & 0o777)
        if not hasattr(os, "listxattr"):
            return
        with suppress(OSError):  # the old file is unreadable, or the file system has no attributes
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            old = os.open(place.name, flags, dir_fd=place.folder)
            try:
                for name in os.listxattr(old):
                    if name not in _DROPPED:
                        with suppress(OSError):  # some belong to the system
                            os.setxattr(self._file, name, os.getxattr(old, name))
            finally:
                os.close(old)


def hidden_name() -> str:
    """Return an unused temporary file name."""
    return f".amplifier-{os.urandom(8).hex()}.tmp"
