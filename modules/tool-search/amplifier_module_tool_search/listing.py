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

from amplifier_module_tool_search.walk import Problem, Rules, Selection, Walk

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

    def take(self, path: str, is_folder: bool, rules: Rules | None = None) -> None:
        """Keep a path if it fits and is not ignored."""
        if not self._fits(path) or self._excluded(path) or (rules is not None and rules.ignore(path)):
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
    code = 0
    signal.signal(signal.SIGALRM, _raise_late)
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"] * (1 - _EARLY))
    try:
        if asked["ripgrep"]:
            # A pattern that is given to ripgrep lifts its ignore rules for files.
            rules = Rules() if selection.is_ignoring else None
            listed = _Listed(asked["ripgrep"])
            with closing(iter(listed)) as paths:
                for path in paths:
                    listing.take(path, False, rules)
            code = listed.code
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
    return code if code not in (0, 1) else 0 if found else 1


def _raise_late(*_: Any) -> None:
    raise _LateError


class _Listed:
    """The files that ripgrep lists."""

    def __init__(self, argv: list[str]) -> None:
        source, sink = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, sink, 1), (os.POSIX_SPAWN_CLOSE, source)]
        self._pid = os.posix_spawn(argv[0], argv, {"LC_ALL": "C.UTF-8"}, file_actions=actions)
        os.close(sink)
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
