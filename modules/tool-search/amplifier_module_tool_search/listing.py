"""List the files whose paths fit, newest first, in the process that does it: through ripgrep, or by walking."""

from __future__ import annotations

import heapq
import json
import os
import re
import signal
import sys
from collections.abc import Generator
from contextlib import closing
from typing import Any, Final

from amplifier_module_tool_search.walk import Problem, Selection, Walk

#: How long before it is killed the listing stops by itself and tells what it has, as a part of its time.
_EARLY: Final = 0.1


class _LateError(Exception):
    """The time is up."""


class Listing:
    """What was found so far."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._fits = re.compile(asked["paths"], re.DOTALL).fullmatch
        self._excluded = re.compile(asked["excluded"] or "(?!)", re.DOTALL).fullmatch
        #: Time of the last change, path, size.
        self.files: list[tuple[int, str, int]] = []
        self.folders: list[tuple[int, str, int]] = []

    def take(self, path: str, is_folder: bool) -> None:
        """Keep a path if it fits."""
        if not self._fits(path) or self._excluded(path):
            return
        try:
            found = os.lstat(path)
        except OSError:
            return  # gone meanwhile
        (self.folders if is_folder else self.files).append((found.st_mtime_ns, path, found.st_size))


def list_files(asked: dict[str, Any], selection: Selection, problem: Problem) -> int:
    """List what is asked for, and write one object to stdout; what the time did not suffice for is left out."""
    listing = Listing(asked)
    is_late = False
    signal.signal(signal.SIGALRM, _raise_late)
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"] * (1 - _EARLY))
    try:
        if asked["ripgrep"]:
            with closing(_listed(asked["ripgrep"])) as paths:
                for path in paths:
                    listing.take(path, False)
        else:
            kinds = {"file": (False,), "dir": (True,), "any": (False, True)}[asked["type"]]
            for path, _, is_folder in Walk(selection, problem):
                if is_folder in kinds:
                    listing.take(path, is_folder)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except _LateError:
        is_late = True
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"])
    found = [(-time, path, "file", size) for time, path, size in listing.files]
    found += [(-time, path, "dir", size) for time, path, size in listing.folders]
    matches = [entry[1:] for entry in heapq.nsmallest(asked["limit"], found)]
    json.dump({"total": len(found), "is_late": is_late, "matches": matches}, sys.stdout)
    return 0 if found else 1


def _raise_late(*_: Any) -> None:
    raise _LateError


def _listed(argv: list[str]) -> Generator[str, None, None]:
    """Yield the files that ripgrep lists."""
    source, sink = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, sink, 1), (os.POSIX_SPAWN_CLOSE, source)]
    pid = os.posix_spawn(argv[0], argv, {"LC_ALL": "C.UTF-8"}, file_actions=actions)
    os.close(sink)
    rest = b""
    try:
        while part := os.read(source, 1 << 20):
            *paths, rest = (rest + part).split(b"\0")
            if paths:
                yield from b"\0".join(paths).decode("utf-8", "surrogateescape").split("\0")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
