"""The process that searches where ripgrep does not: what it is asked comes from stdin, what it finds goes to stdout.

It writes what ripgrep writes, so that one reader understands both. It works in the folder it is started in. It is a
process because a regular expression may take for ever, and a network share may never answer; both can be killed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
from collections.abc import Iterator
from errno import ENOMEM
from typing import Any, Final

from amplifier_module_tool_search.lines import Pattern, with_context
from amplifier_module_tool_search.listing import list_files
from amplifier_module_tool_search.walk import Hiding, Problem, Selection, Walk

#: Seconds after which it ends by itself, when whoever should have stopped it is gone.
_LEEWAY: Final = 5.0
_BATCH: Final = 65536


def main(running: tuple[int, int] | None) -> int:
    """Do what is asked on stdin and return the exit code of ripgrep: 0 found, 1 not found, 2 trouble.

    `running` is a process whose output lists files, and where to read that.
    """
    asked = json.loads(sys.stdin.buffer.read())
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"] + _LEEWAY)
    selection = Selection(**asked["selection"])
    hiding = _hiding(asked["questions"])
    if asked["mode"] == "glob":
        return list_files(asked, selection, problem, running, hiding)
    _limit_memory(asked["memory"])
    try:
        search = Search(asked, selection, hiding)
    except re.error as error:
        say(f"regex parse error: {error}")
        return 2
    if asked["mode"] == "hidden":
        search.ask_all()
        return 0
    if asked["mode"] == "large":
        search.tell_large()
        return 0
    return 0 if search.run() else 1


class Search:
    """Search the files of a tree, or one file."""

    def __init__(self, asked: dict[str, Any], selection: Selection, hiding: Hiding | None) -> None:
        self._asked = asked
        self._hiding = hiding
        self._selection = selection
        self._pattern = Pattern(asked["pattern"], ignore_case=asked["ignore_case"], multiline=asked["multiline"])
        self._out: list[bytes] = []
        self._size = 0

    def run(self) -> bool:
        """Write what is found; return whether anything was."""
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
        # What cannot be read was said by whoever searched.
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
                self._write(_message("begin", {"path": _text(name)}) + _message("end", {"binary_offset": 0}))
            return False
        assert lines is not None
        if self._asked["mode"] == "count":
            self._write(name + b"\0%d\n" % len(found))
            return True
        self._write(_message("begin", {"path": _text(name)}))
        for line in with_context(lines, found, self._asked["before"], self._asked["after"]):
            text = _text(line.text.encode("utf-8", "surrogateescape"))
            self._write(_message("match" if line.is_match else "context", {"lines": text, "line_number": line.number}))
        self._write(_message("end", {"binary_offset": None}))
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


def _hiding(fd: int | None) -> Hiding | None:
    if fd is None:
        return None
    from amplifier_module_tool_search.questions import Questions

    return Questions(fd).hidden


def _limit_memory(size: int) -> None:
    """Keep a regular expression that piles up what it may come back to from taking the machine's memory."""
    import resource

    try:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (size if most == resource.RLIM_INFINITY else min(size, most), most))
    except (OSError, ValueError):
        pass  # a system without this


def problem(path: str, error: OSError) -> None:
    """Say what cannot be read."""
    say(f"./{path}: {error.strerror} (os error {error.errno})")


def _tell_large(path: str, size: int) -> None:
    say(f"ignoring ./{path}: {size} bytes")


def say(text: str) -> None:
    """Write one line to stderr."""
    os.write(2, text.replace("\n", " ").encode("utf-8", "replace") + b"\n")


def _read(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _message(kind: str, data: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "data": data}, separators=(",", ":")).encode() + b"\n"


def _text(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"bytes": b64encode(data).decode()}
