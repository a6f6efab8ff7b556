"""Open the place to search, and check that it is allowed, before anything there is read.

A place is opened first and checked after, by its real path, and the search uses what was opened: a link that is swapped
meanwhile changes nothing.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.guard.authorization import authorize
from amplifier_kit.threads import run_stoppable
from amplifier_module_tool_search.calls import SearchError
from amplifier_module_tool_search.config import SearchConfig

ACTION: Final = "filesystem.read"
#: Seconds after which a path counts as dead, like that of a lost network share.
PATIENCE: Final = 10.0
#: Pseudo-files of the system: they hold no text to search, and some never end.
_SYSTEM: Final = ("/proc", "/sys", "/dev")


class Place:
    """A folder or a file that is open; `close` it."""

    fd = -1

    def __init__(self, fd: int, path: str, is_folder: bool, home: str) -> None:
        #: Where it really is.
        self.path = path
        self.is_folder = is_folder
        #: Whether rules of folders above count.
        self.is_in_repository = is_folder and _is_in_repository(path)
        shown = os.path.relpath(path, home) if is_inside(path, home) else path
        self._shown = "" if shown == "." else shown
        self.fd = fd  # last: until here, the caller closes it

    def close(self) -> None:
        """Close it; idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()  # for callers that did not wait for a slow disk

    @property
    def entrance(self) -> str:
        """Return a path that leads here and nowhere else, whatever is renamed meanwhile."""
        return f"/proc/self/fd/{self.fd}" if _HAS_FD_PATHS else self.path

    def shown(self, below: str) -> str:
        """Return how a path below this place is written: from the working directory, or absolute outside of it."""
        path = self._shown if not below else os.path.join(self._shown, below)
        return readable(path)


class Places:
    """Open places for one session."""

    def __init__(self, coordinator: Any, settings: SearchConfig) -> None:
        self._coordinator = coordinator
        self._working_dir = settings.working_dir
        self._allowed = settings.allowed_paths

    def working_dir(self) -> str:
        """Return the folder that relative paths are relative to: the config's, else the session's, else the current."""
        session = self._coordinator.get_capability("session.working_dir") or os.getcwd()
        return os.path.join(session, os.path.expanduser(self._working_dir or ""))

    async def open(self, tool: str, tool_input: Mapping[str, Any], given: str, *, is_seen: bool = True) -> Place:
        """Open a place, once it is allowed; raise SearchError.

        `is_seen` means that the path is in the input, which was authorized with the call. Anything else, like the
        target of a link, is authorized here.
        """
        home = self.working_dir()
        if "\0" in given:
            raise SearchError("invalid_input", "path has a NUL in it")
        try:
            async with asyncio.timeout(PATIENCE):
                place, expected, allowed = await run_stoppable(lambda stop: self._opened(home, given, stop), grace=0)
        except TimeoutError:
            raise SearchError("timeout", f"{readable(given)} did not answer within {PATIENCE:g} s") from None
        try:
            if any(is_inside(place.path, folder) for folder in _SYSTEM):
                raise SearchError("not_allowed", f"{place.path} belongs to the system and is not searched")
            if allowed is not None and not any(is_inside(place.path, folder) for folder in allowed):
                where = ", ".join(allowed) or "nowhere"
                raise SearchError("not_allowed", f"{place.path} is outside of what this tool may search: {where}")
            if place.path != expected or not is_seen:
                await self._ask(tool, tool_input, place.path)
        except BaseException:
            place.close()
            raise
        return place

    def _opened(self, home: str, given: str, stop: threading.Event) -> tuple[Place, str, list[str] | None]:
        """Return the open place, the path that was expected, and the allowed folders; nothing waits after `stop`."""
        real_home = os.path.realpath(home)
        expected = os.path.normpath(os.path.join(real_home, os.path.expanduser(given)))
        allowed = self._allowed
        folders = None
        if allowed is not None:
            folders = [os.path.realpath(os.path.join(home, os.path.expanduser(path))) for path in allowed]
        # Not the expected path: behind a link, the system decides where .. leads.
        place = open_place(os.path.join(real_home, os.path.expanduser(given)), real_home)
        if stop.is_set():
            place.close()
        return place, expected, folders

    async def _ask(self, tool: str, tool_input: Mapping[str, Any], path: str) -> None:
        details = {"tool_name": tool, "tool_input": dict(tool_input), "path": path}
        permission = await authorize(self._coordinator, ACTION, details)
        if not permission.granted:
            raise SearchError("denied", f"searching {path} was not allowed: {permission.reason}")


def open_place(path: str, home: str) -> Place:
    """Open a folder or a regular file without reading it, and nothing else; raise SearchError."""
    try:
        fd = os.open(path, _WITHOUT_READING | os.O_CLOEXEC)
    except OSError as error:
        code = "not_found" if isinstance(error, (FileNotFoundError, NotADirectoryError)) else "not_readable"
        raise SearchError(code, f"cannot search {readable(path)}: {error.strerror}") from None
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise SearchError("not_a_file", f"{readable(path)} is neither a folder nor a file")
        real = os.readlink(f"/proc/self/fd/{fd}") if _HAS_FD_PATHS else os.path.realpath(path)
        return Place(fd, real, stat.S_ISDIR(mode), home)
    except BaseException:
        os.close(fd)
        raise


def _is_in_repository(path: str) -> bool:
    while not os.path.lexists(os.path.join(path, ".git")):
        if (parent := os.path.dirname(path)) == path:
            return False
        path = parent
    return True


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path is a folder or below it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def readable(path: str) -> str:
    r"""Return a path as text that can be stored anywhere; bytes of invalid UTF-8 are written \xNN."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


_HAS_FD_PATHS: Final = sys.platform == "linux"
#: Without O_PATH the file is opened, but never waited for.
_WITHOUT_READING: Final[int] = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
