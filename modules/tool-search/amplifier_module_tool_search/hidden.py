"""Keep paths that the session's rules hide out of a search, by answering the searching process."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from amplifier_kit.guard.authorization import HidingError, hiding
from amplifier_module_tool_search.errors import SearchError
from amplifier_module_tool_search.place import Place


class Hidden:
    """The paths below one place that must not be shown; everything in a hidden folder is hidden."""

    def __init__(self, is_hidden: Callable[[str], bool], top: str) -> None:
        self._is_hidden = is_hidden
        self._top = top
        self._folders = {"": False}
        self._failure: SearchError | None = None
        #: Hidden paths that the walk came to, below the top; it enters no hidden folder.
        self.met: dict[str, None] = {}

    @classmethod
    def of(cls, coordinator: Any, tool: str, place: Place) -> Hidden | None:
        """Return the hidden paths below a place; None when there are no rules.

        A file that was named was decided on with the call. Raises SearchError when the session cannot tell.
        """
        if not place.is_folder:
            return None
        try:
            is_hidden = hiding(coordinator, tool, place.path)
        except HidingError as error:
            raise _unknown(error) from error
        return None if is_hidden is None else cls(is_hidden, place.path)

    def hides(self, path: str) -> bool:
        """Return whether a path below the top is hidden, or in a hidden folder; raise SearchError."""
        folder, _, _ = path.rpartition("/")
        if folder not in self._folders:
            ends = [end for end, character in enumerate(folder) if character == "/"]
            self._folders[folder] = any(self._asked(folder[:end]) for end in (*ends, len(folder)))
        return self._folders[folder] or self._asked(path)

    def _asked(self, path: str) -> bool:
        try:
            return self._is_hidden(os.path.join(self._top, path))
        except HidingError as error:
            raise _unknown(error) from error

    @contextmanager
    def answering(self) -> Iterator[int]:
        """Yield a descriptor for the walking process, and answer its questions while the block runs.

        It sends lists of paths, one list a line, and gets back a byte for each path: 1 when it is hidden. On failure it
        gets nothing, which ends it, and `check` raises the reason.
        """
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        with ours, theirs:
            ours.setblocking(False)
            asked = bytearray()
            loop.add_reader(ours, lambda: self._hear(ours, asked))
            try:
                yield theirs.fileno()
            finally:
                loop.remove_reader(ours)

    def _hear(self, ours: socket.socket, asked: bytearray) -> None:
        try:
            asked += ours.recv(1 << 20)
            while (end := asked.find(b"\n")) >= 0:
                paths = json.loads(asked[:end])
                del asked[: end + 1]
                ours.sendall(bytes(self._met(path) for path in paths))
        except BlockingIOError:
            return
        except Exception as error:
            self._failure = error if isinstance(error, SearchError) else _unknown(error)
            asyncio.get_running_loop().remove_reader(ours)
            ours.shutdown(socket.SHUT_RDWR)

    def _met(self, path: str) -> bool:
        """Return whether a path that the walk came to is hidden; the folders above it are not."""
        is_hidden = self._asked(path)
        if is_hidden:
            self.met[path] = None
        return is_hidden

    def check(self) -> None:
        """Raise SearchError when a question could not be answered."""
        if self._failure is not None:
            raise self._failure

    def texts(self) -> list[str]:
        """Return how much was left out, in words. The number depends on neither names nor contents of it."""
        if not self.met:
            return []
        count = len(self.met)
        what = "1 file or folder is" if count == 1 else f"{count:,} files and folders are"
        return [f"{what} left out because rules restrict {'it' if count == 1 else 'them'}"]


def _unknown(error: Exception) -> SearchError:
    return SearchError("denied", f"nothing is shown: {error}")
