"""List the files whose paths fit, newest first, in the process that does it: through ripgrep, or by walking."""

from __future__ import annotations

import heapq
import json
import os
import re
import signal
import sys
from contextlib import closing

TYPE_CHECKING = False  # see worker.py
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, Final

    from amplifier_module_tool_search.walk import Hiding

#: The share of its time before the end at which the listing stops and writes its findings.
_EARLY: Final = 0.1


class _LateError(Exception):
    """The time is up."""


class Listing:
    """The matches so far."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._fits = re.compile(asked["paths"], re.DOTALL).fullmatch
        self._excluded = re.compile(asked["excluded"], re.DOTALL).fullmatch if asked["excluded"] else None
        #: Newest first when sorted: time of the last change, negative, then path, kind, size.
        self.found: list[tuple[int, str, str, int]] = []

    def take(self, path: str, is_folder: bool) -> None:
        """Keep a path if it fits."""
        if not self._fits(path):
            return
        if self._excluded is not None and self._excluded(path):
            return
        try:
            found = os.lstat(path)
        except OSError:
            return  # gone meanwhile
        self.found.append((-found.st_mtime_ns, path, "dir" if is_folder else "file", found.st_size))


def list_files(asked: dict[str, Any], running: tuple[int, int] | None, hiding: Hiding | None) -> int:
    """List the matches and write one object to stdout; those that take too long are left out.

    `running` is ripgrep's process and the descriptor of its output; without it the folders are walked.
    """
    listing = Listing(asked)
    is_late = False
    code = 0
    signal.signal(signal.SIGALRM, _raise_late)
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"] * (1 - _EARLY))
    try:
        if running is not None:
            listed = _Listed(*running)
            with closing(iter(listed)) as paths:
                for path in paths:
                    listing.take(path, False)
            code = listed.code
        else:
            _walk(asked, listing, hiding)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except _LateError:
        is_late = True
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"])
    found = listing.found
    matches = [entry[1:] for entry in heapq.nsmallest(asked["limit"], found)]
    json.dump({"total": len(found), "is_late": is_late, "matches": matches}, sys.stdout)
    return code if code not in (0, 1) else 0 if found else 1


def _walk(asked: dict[str, Any], listing: Listing, hiding: Hiding | None) -> None:
    """Take the files that our own walk finds."""
    from amplifier_module_tool_search.stderr import problem
    from amplifier_module_tool_search.walk import Selection, Walk

    kinds = {"file": (False,), "dir": (True,), "any": (False, True)}[asked["type"]]
    for path, _, is_folder in Walk(Selection(**asked["selection"]), problem, hiding):
        if is_folder in kinds:
            listing.take(path, is_folder)


def _raise_late(*_: Any) -> None:
    raise _LateError


class _Listed:
    """The files that a running ripgrep lists."""

    def __init__(self, pid: int, source: int) -> None:
        self._pid = pid
        self._source = source
        #: How it ended.
        self.code = 0

    def __iter__(self) -> Generator[str, None, None]:
        rest = b""
        try:
            while part := os.read(self._source, 1 << 20):
                *paths, rest = (rest + part).split(b"\0")
                if paths:
                    yield from b"\0".join(paths).decode("utf-8", "surrogateescape").split("\0")
            self.code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        except BaseException:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            raise
