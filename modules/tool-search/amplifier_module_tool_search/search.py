"""Search the files of a tree by ourselves, or one file, in the process that does it."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from errno import ENOMEM
from typing import Any, Final

from amplifier_module_tool_search.lines import Pattern, with_context
from amplifier_module_tool_search.stderr import problem, say
from amplifier_module_tool_search.walk import Hiding, Problem, Selection, Walk

_BATCH: Final = 65536


def search(asked: dict[str, Any], hiding: Hiding | None) -> int:
    """Search and return the exit code of ripgrep: 0 found, 1 not found, 2 failed."""
    _limit_memory(asked["memory"])
    try:
        work = Search(asked, hiding)
    except re.error as error:
        say(f"regex parse error: {error}")
        return 2
    if asked["mode"] == "hidden":
        work.ask_all()
        return 0
    if asked["mode"] == "large":
        work.tell_large()
        return 0
    return 0 if work.run() else 1


class Search:
    """Search the files of a tree, or one file."""

    def __init__(self, asked: dict[str, Any], hiding: Hiding | None) -> None:
        self._asked = asked
        self._hiding = hiding
        self._selection = Selection(**asked["selection"])
        self._pattern = Pattern(asked["pattern"], ignore_case=asked["ignore_case"], multiline=asked["multiline"])
        self._out: list[bytes] = []
        self._size = 0

    def run(self) -> bool:
        """Write the findings; return whether there are any."""
        has_found = False
        for path, data in self._files():
            try:
                has_found = self._search(path, data) or has_found
            except MemoryError:
                problem(path, OSError(ENOMEM, os.strerror(ENOMEM)))
        self._flush()
        return has_found

    def tell_large(self) -> None:
        """Name the files that are too large to be searched."""
        most = self._asked["max_file_size"]
        # Unreadable files were reported by the search itself.
        for path in self._paths(lambda path, error: None):
            try:
                size = os.lstat(path).st_size
            except OSError:
                continue  # gone meanwhile
            if size > most:
                _tell_large(path, size)

    def ask_all(self) -> None:
        """Walk once, for the questions that it asks."""
        for _ in Walk(self._selection, lambda path, error: None, self._hiding):
            pass

    def _paths(self, trouble: Problem) -> Iterator[str]:
        wanted = re.compile(self._asked["names"] or ".*", re.DOTALL).fullmatch
        fits = re.compile(self._asked["paths"] or ".*", re.DOTALL).fullmatch
        for path, name, is_folder in Walk(self._selection, trouble, self._hiding):
            if not is_folder and wanted(name) and fits(path):
                yield path

    def _files(self) -> Iterator[tuple[str, bytes]]:
        most = self._asked["max_file_size"]
        if self._asked["file"] is not None:
            yield "<stdin>", _read(self._asked["file"])
            return
        for path in self._paths(problem):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                problem(path, error)
                continue
            try:
                found = os.fstat(fd)
                if found.st_size > most:
                    _tell_large(path, found.st_size)
                elif stat.S_ISREG(found.st_mode):
                    yield path, _read(fd)
            except OSError as error:
                problem(path, error)
            finally:
                os.close(fd)

    def _search(self, path: str, data: bytes) -> bool:
        name = f"./{path}".encode("utf-8", "surrogateescape")
        if self._asked["mode"] == "files_with_matches":
            is_found = self._pattern.is_in(data)
            if is_found:
                self._write(name + b"\0")
            return is_found
        lines, found = self._pattern.numbers(data)
        if not found:
            if (
                lines is None
                and self._asked["file"] is not None
                and self._pattern.numbers(data.replace(b"\0", b"\n"))[1]
            ):
                self._write(name + b": binary file matches\n")
            return False
        assert lines is not None
        if self._asked["mode"] == "count":
            self._write(name + b"\0%d\n" % len(found))
            return True
        self._write(name + b"\0")
        for line in with_context(lines, found, self._asked["before"], self._asked["after"]):
            text = line.text.encode("utf-8", "surrogateescape")
            self._write(b"%d%c%b\n" % (line.number, b":" if line.is_match else b"-", text))
        self._write(b"\n")
        return True

    def _write(self, data: bytes) -> None:
        self._out.append(data)
        self._size += len(data)
        if self._size >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        sys.stdout.buffer.write(b"".join(self._out))
        sys.stdout.buffer.flush()
        self._out.clear()
        self._size = 0


def _limit_memory(size: int) -> None:
    """Limit the memory of this process, which a backtracking regular expression could use up."""
    import resource

    try:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (size if most == resource.RLIM_INFINITY else min(size, most), most))
    except (OSError, ValueError):
        pass  # a system without this


def _tell_large(path: str, size: int) -> None:
    say(f"ignoring ./{path}: {size} bytes")


def _read(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
