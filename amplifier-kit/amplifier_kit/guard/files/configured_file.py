"""Open files and folders that a module's config names: a transcript, a memory file, a recording, a search folder.

The session's commands can change the project after the bundle was written, so the path may lead elsewhere by the time
it is opened. A link in the project that points out of it is not followed, a pipe or device is refused without
blocking, and nothing is written through a link. A path that is outside of the project as written is the author's
choice: untrusted projects may not name one.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from amplifier_kit.guard.files.place import LARGEST_TEXT, FileError, Place, Roots, open_file, reach
from amplifier_kit.guard.private_files import open_private, replace_file

#: `(path, root) -> reason`: why the model must not see a file, None when it may. Files below `root` need no rule that
#: allows them.
Denied = Callable[[str, str], str | None]

_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_ERRNOS: Final = {
    "not_found": errno.ENOENT,
    "not_a_directory": errno.ENOTDIR,
    "is_directory": errno.EISDIR,
    "permission_denied": errno.EACCES,
}


class RefusedFileError(OSError):
    """A file that a config names was not opened; the message says why."""


def project_of(coordinator: Any) -> Path:
    """Return the folder that a session works in: capability `session.working_dir`, or the current directory."""
    known = coordinator.get_capability("session.working_dir")
    return Path(str(known)).expanduser().absolute() if known else Path.cwd()


def denied_to_model(coordinator: Any) -> Denied | None:
    """Return the check for files that the model must not see (capability `prompt.denied`), None without rules."""
    found: Denied | None = coordinator.get_capability("prompt.denied")
    return found


def configured_folder(path: str | Path, project: Path | None) -> Path:
    """Return the real path of a folder that a config names; raises OSError when it may not be used."""
    with _reach(Path(path), project, follow=True) as place:
        return place.path


class ConfiguredFile:
    """One file that a config names; every method raises OSError, with the reason."""

    def __init__(self, path: Path, project: Path | None = None, denied: Denied | None = None) -> None:
        """Open `path` by the rules of this module for `project`; without one, the path is not from a config.

        With `denied`, the content is for the model: files that the rules keep from it are refused.
        """
        self.path: Final = path
        self._project = project
        self._denied = denied

    def exists(self) -> bool:
        """Return whether the path exists, even as a dangling link."""
        return os.path.lexists(self.path)

    def read(self, largest: int | None = LARGEST_TEXT) -> bytes:
        """Return the content of a regular file of at most `largest` bytes; None means no limit."""
        with _reach(self.path, self._project, follow=True) as place:
            if self._denied is not None:
                for name in dict.fromkeys((os.path.normpath(self.path), str(place.path))):
                    if (reason := self._denied(name, str(place.path.parent))) is not None:
                        raise RefusedFileError(f"{place.named} is not given to the model: {reason}")
            with open_file(place, Roots()) as file:
                data = file.read(-1 if largest is None else largest + 1)
        if largest is not None and len(data) > largest:
            raise RefusedFileError(f"{place.named} has more than {largest:,} bytes")
        return data

    def open_to_append(self) -> int:
        """Open for appending and reading, creating a file of mode 0600 and missing folders; return the descriptor."""
        with _reach(self.path, self._project, follow=False) as place:
            place.make_folders(0o700)
            self._check_regular(place, place.status())
            descriptor = open_private(Path(place.name), _APPEND, folder=place.folder)
            try:
                self._check_regular(place, os.fstat(descriptor))
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor

    def replace(self, content: bytes) -> None:
        """Atomically replace the file, or a link, with `content`, masked."""
        with _reach(self.path, self._project, follow=False) as place:
            place.make_folders(0o700)
            replace_file(Path(place.name), content, folder=place.folder)

    def set_aside(self, ending: str) -> None:
        """Rename the file, or link, by appending `ending`; replaces an existing file of that name."""
        with _reach(self.path, self._project, follow=False) as place:
            os.replace(place.name, place.name + ending, src_dir_fd=place.folder, dst_dir_fd=place.folder)

    def _check_regular(self, place: Place, status: os.stat_result | None) -> None:
        """Raise OSError for anything but a regular file or nothing."""
        if status is None:
            return
        if stat.S_ISLNK(status.st_mode):
            raise RefusedFileError(f"{place.named} is a link, and nothing is written through one: remove it")
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place.named)
        if not stat.S_ISREG(status.st_mode):
            raise RefusedFileError(f"{place.named} is not a regular file")
        project = _real_path(self._project)
        if status.st_nlink > 1 and project is not None and place.path.is_relative_to(project):
            raise RefusedFileError(
                f"{place.named} has a second name (hard link), which may lie outside of the project: remove it"
            )


@contextmanager
def _reach(path: Path, project: Path | None, *, follow: bool) -> Iterator[Place]:
    """Hold open the place that a path leads to; failures are OSErrors."""
    try:
        with reach(str(path.absolute()), follow=follow, confine=_real_path(project)) as place:
            yield place
    except FileError as error:
        if (number := _ERRNOS.get(error.code)) is not None:
            raise OSError(number, os.strerror(number), str(path)) from error
        raise RefusedFileError(error.message) from error


def _real_path(project: Path | None) -> Path | None:
    return Path(os.path.realpath(project)) if project is not None else None
