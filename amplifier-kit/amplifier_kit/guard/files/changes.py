"""Change one file or several: all of them, or none.

Everything is written out before the first file changes, so a full disk is noticed while nothing has happened. Should a
later file fail all the same, those before it are put back. A process that is killed in the middle leaves every single
file whole, old or new.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from amplifier_kit.guard.files.errors import FileError, told
from amplifier_kit.guard.files.reading import Snapshot
from amplifier_kit.guard.files.roots import Roots
from amplifier_kit.guard.files.staging import Staged, Stopped, hidden_name
from amplifier_kit.guard.files.walk import Place

__all__ = ["Change", "apply_changes", "check_writable"]


@dataclass(frozen=True)
class Change:
    """What a place shall hold, and what it held when that was decided."""

    place: Place
    before: Snapshot
    #: None removes the file.
    content: bytes | None
    #: What the file held, to put it back; needed where several files change and this one is overwritten.
    original: bytes | None = None
    #: The mode of a new file, None for the usual one.
    mode: int | None = None


def check_writable(place: Place, roots: Roots) -> Snapshot:
    """Return what lies at a place that may be written: a regular file, or nothing; raises FileError."""
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
    """Carry all changes out, each at once; raises FileError or Stopped, and then nothing has changed.

    The one exception has the code `partial`: a change failed and putting back failed too; the text says which files.
    """
    with ExitStack() as stack:
        steps: list[_Step] = []
        for change in changes:
            with told(f"{change.place.named} cannot be written"):
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
            with told(f"{step.change.place.named} cannot be written"):
                step.go()
    except BaseException as error:
        stuck = [step.change.place.named for step in reversed(begun) if not step.undo()]
        if stuck:
            raise FileError(
                "partial", f"{error}. These files could not be put back and are changed now: {', '.join(stuck)}"
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
        """Raise FileError when the place is not what it was, or not where it was."""
        place = self.change.place
        roots.check(place, "written")
        if not self.change.before.is_same(place.status()):
            raise FileError("changed_meanwhile", f"{place.named} was changed by somebody else just now; read it again")

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
        """Put back what was there; False when that fails."""
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
            self._aside = None  # what was moved aside is all that is left of the file: it stays
            return False
        return True

    def close(self) -> None:
        """Let go of everything that is not in its place."""
        for staged in (self._new, self._old):
            if staged is not None:
                staged.discard()
        if self._aside is not None:
            aside, self._aside = self._aside, None
            with told(f"{self.change.place.named} was moved to {aside} and cannot be removed"):
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
                pass  # an earlier change of these made it, or somebody else did
            place.enter(name)

    def _keep_times(self) -> None:
        place, status = self.change.place, self.change.before.status
        if status is not None:
            times = (status.st_atime_ns, status.st_mtime_ns)
            os.utime(place.name, ns=times, dir_fd=place.folder, follow_symlinks=False)


def _may_write(place: Place) -> bool:
    # Replacing a file needs no right on the file itself, so its protection has to be looked at.
    try:
        return os.access(place.name, os.W_OK, dir_fd=place.folder, effective_ids=True, follow_symlinks=False)
    except NotImplementedError:
        return os.access(place.path, os.W_OK)
