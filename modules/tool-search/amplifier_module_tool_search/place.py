"""Find where to search, and ask whether that is allowed, before anything there is read.

A place is opened first and judged after, by where it really is, and what is searched is what was opened: a link that is
swapped meanwhile changes nothing.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from amplifier_kit.guard.authorization import authorize
from amplifier_module_tool_search.config import SearchConfig
from amplifier_module_tool_search.problem import SearchError

ACTION: Final = "filesystem.read"
#: Seconds until a path counts as one that does not answer, like that of a dead network share.
PATIENCE: Final = 10.0
#: What the system shows of itself is no text to search, and some of it never ends.
_SYSTEM: Final = ("/proc", "/sys", "/dev")

T = TypeVar("T")


class Place:
    """A folder or a file that is open; `close` it."""

    def __init__(self, fd: int, path: str, is_folder: bool, home: str) -> None:
        self.fd = fd
        #: Where it really is.
        self.path = path
        self.is_folder = is_folder
        #: Whether rules of folders above count.
        self.is_in_repository = is_folder and _is_in_repository(path)
        shown = os.path.relpath(path, home) if is_inside(path, home) else path
        self._shown = "" if shown == "." else shown

    def close(self) -> None:
        """Let go of it."""
        os.close(self.fd)

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

        `is_seen` says that the input shows the path to whoever decided about the call. What it does not show, like
        where a link leads, is asked for here.
        """
        home = self.working_dir()
        if "\0" in given:
            raise SearchError("invalid_input", "path has a NUL in it")
        place, expected, allowed = await _in_time(given, lambda: self._opened(home, given))
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

    def _opened(self, home: str, given: str) -> tuple[Place, str, list[str] | None]:
        real_home = os.path.realpath(home)
        expected = os.path.normpath(os.path.join(real_home, os.path.expanduser(given)))
        allowed = self._allowed
        folders = None
        if allowed is not None:
            folders = [os.path.realpath(os.path.join(home, os.path.expanduser(path))) for path in allowed]
        # Not the expected path: what .. means behind a link is for the system to say.
        return open_place(os.path.join(real_home, os.path.expanduser(given)), real_home), expected, folders

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
    """Tell whether a path is a folder or below it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def readable(path: str) -> str:
    r"""Return a path as text that can be stored anywhere; bytes that are no UTF-8 are written \xNN."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


_HAS_FD_PATHS: Final = sys.platform == "linux"
#: Without O_PATH the file is opened, but never waited for.
_WITHOUT_READING: Final[int] = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)


async def _in_time(path: str, function: Callable[[], T]) -> T:
    """Call a function that may never return, in a thread that holds nobody up; raise SearchError when it is late."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: Exception | None) -> None:
        if ended.done():
            if isinstance(result, tuple):
                result[0].close()
        elif error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        try:
            outcome: tuple[T | None, Exception | None] = (function(), None)
        except Exception as error:
            outcome = (None, error)
        try:
            loop.call_soon_threadsafe(tell, *outcome)
        except RuntimeError:
            pass  # the loop was closed: nobody waits for this any more

    threading.Thread(target=run, name="tool-search-open", daemon=True).start()
    try:
        async with asyncio.timeout(PATIENCE):
            return await ended
    except TimeoutError:
        raise SearchError("timeout", f"{readable(path)} did not answer within {PATIENCE:g} s") from None
