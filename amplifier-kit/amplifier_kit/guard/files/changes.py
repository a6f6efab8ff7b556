"""Change one file or several: all of them, or none.

All new content is on disk before the first file changes, so a full disk fails the call before any change. If a later
file fails anyway, the earlier ones are restored. A process that is killed in between leaves every file complete, either
old or new.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from amplifier_kit.guard.files.errors import FileError, as_file_error
from amplifier_kit.guard.files.read import Snapshot
from amplifier_kit.guard.files.roots import Roots
from amplifier_kit.guard.files.staged_write import Staged, Stopped, hidden_name
from amplifier_kit.guard.files.walk import Place

__all__ = ["Change", "apply_changes", "check_writable"]


@dataclass(frozen=True)
class Change:
    """The new content of a place, and its state when the change was decided."""

    place: Place
    before: Snapshot
    #: None removes the file.
    content: bytes | None
    #: The old content, to restore it; needed when several files change and this one is overwritten.
    original: bytes | None = None
    #: The mode of a new file, None for the usual one.
    mode: int | None = None


def check_writable(place: Place, roots: Roots) -> Snapshot:
    """Return the state of a place that may be written, a regular file or nothing; raises FileError otherwise."""
    roots.check(place, "written")
    status = place.status()
    if place.name == "." or (status is not None and stat.S_ISDIR(status.st_mode)):
        raise FileError("is_directory", f"{place.named} is a folder")
    if status is not None:
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
            raise FileError("special_file", f"{place.named} is not a regular file")
        if stat.S_ISREG(status.st_mode) and not _may_write(place):
            raise FileError("read_only", f"{place.named} is write-protected")
    return Snapshot(status)


def apply_changes(changes: Sequence[Change], roots: Roots, stop: threading.Event) -> None:
    """Apply all changes, each atomically; on FileError or Stopped, no file has changed.

    The one exception has the code `partial`: a change and the restore both failed; the message names the files.
    """
    with ExitStack() as stack:
        steps: list[_Step] = []
        for change in changes:
            with as_file_error(f"{change.place.named} cannot be written"):
                step = _Step(change, stop, has_way_back=len(changes) > 1)
            stack.callback(step.close)
            steps.append(step)
        if stop.is_set():
            raise Stopped
        for step in steps:
            step.verify(roots)
        _carry_out(steps, roots)


def _carry_out(steps: Sequence[_Step], roots: Roots) -> None:
    begun: list[_Step] = []
    try:
        for step in steps:
            begun.append(step)
            step.verify(roots)
            with as_file_error(f"{step.change.place.named} cannot be written"):
                step.go()
    except BaseException as error:
        stuck = [step.change.place.named for step in reversed(begun) if not step.undo()]
        if stuck:
            raise FileError(
                "partial", f"{error}. These files could not be restored and have changed: {', '.join(stuck)}"
            ) from error
        raise


class _Step:
    """One change, prepared."""

    def __init__(self, change: Change, stop: threading.Event, *, has_way_back: bool) -> None:
        self.change = change
        self._new: Staged | None = None
        self._old: Staged | None = None
        self._aside: str | None = None
        self._made: list[tuple[int, str]] = []
        self._is_done = False
        self._has_way_back = has_way_back
        place, status = change.place, change.before.status
        try:
            if change.content is not None:
                self._new = Staged(place, change.content, status, stop, mode=change.mode)
            if has_way_back and change.content is not None and status is not None:
                assert change.original is not None
                self._old = Staged(place, change.original, status, stop)
        except BaseException:
            self.close()
            raise

    def verify(self, roots: Roots) -> None:
        """Raise FileError when the place has changed or moved."""
        place = self.change.place
        roots.check(place, "written")
        if not self.change.before.is_same(place.status()):
            raise FileError("changed_meanwhile", f"{place.named} was changed by another process; read it again")

    def go(self) -> None:
        """Change the place; raises OSError."""
        place = self.change.place
        if self._new is not None:
            self._make_folders()
            self._new.put(place.folder, place.name, is_new=self.change.before.status is None)
        elif self._has_way_back:
            aside = hidden_name()
            os.rename(place.name, aside, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            self._aside = aside
        else:
            os.unlink(place.name, dir_fd=place.folder)
        self._is_done = True

    def undo(self) -> bool:
        """Restore the old state; return False when that fails."""
        place = self.change.place
        try:
            if self._aside is not None:
                os.rename(self._aside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
                self._aside = None
            elif self._is_done and self._old is not None:
                self._old.put(place.folder, place.name, is_new=False)
                self._keep_times()
            elif self._is_done:
                os.unlink(place.name, dir_fd=place.folder)
            for folder, name in reversed(self._made):
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
        for folder, _ in self._made:
            os.close(folder)
        self._made.clear()

    def _make_folders(self) -> None:
        place = self.change.place
        for name in place.missing:
            try:
                os.mkdir(name, dir_fd=place.folder)
                self._made.append((os.dup(place.folder), name))
            except FileExistsError:
                pass  # made by an earlier change or by another process
            place.enter(name)

    def _keep_times(self) -> None:
        place, status = self.change.place, self.change.before.status
        if status is not None:
            times = (status.st_atime_ns, status.st_mtime_ns)
            os.utime(place.name, ns=times, dir_fd=place.folder, follow_symlinks=False)


def _may_write(place: Place) -> bool:
    # Replacing a file needs no permission on the file itself, so its write protection is checked here.
    try:
        return os.access(place.name, os.W_OK, dir_fd=place.folder, effective_ids=True, follow_symlinks=False)
    except NotImplementedError:
        return os.access(place.path, os.W_OK)
