"""Parse the output of the searching process: paths, counts or lines, in pieces of any size."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

#: More than this is not read: such a search must be narrowed.
MOST_BYTES: Final = 64 * 1024 * 1024

_BLANK: Final = b"\n\n"
#: A line of the output: its number, whether it matches, its text.
_LINE: Final = re.compile(rb"(\d+)([:-])(.*)", re.DOTALL)
_LINES: Final = re.compile(rb"(?:\d+[:-][^\n]*\n)*+")
_MATCH: Final = re.compile(rb"^\d+:", re.MULTILINE)
_SEARCHED: Final = re.compile(rb"^(\d+) files searched$", re.MULTILINE)

Fits = Callable[[str], bool]


class Entry(NamedTuple):
    """One line of a file, or a part of the answer about it."""

    number: int
    text: str
    is_match: bool


class Findings(ABC):
    """The findings so far, by file; files that do not fit are left out. `single`: there is one file only."""

    #: The end of a part that can be parsed.
    mark: bytes

    def __init__(self, fits: Fits | None, single: bool = False) -> None:
        self._fits = fits
        self._single = single
        self._pieces: list[bytes] = []
        self._read = 0
        self.files: dict[str, Any] = {}

    def take(self, data: bytes) -> bool:
        """Read another piece; return True when it is enough."""
        self._read += len(data)
        self._pieces.append(data)
        if self.mark in data:
            self._pieces = [self._parse(b"".join(self._pieces))]
        return self._read > MOST_BYTES

    def searched(self) -> int | None:
        """Return how many files were searched; None where the output does not say."""
        stated = _SEARCHED.search(b"".join(self._pieces))
        return None if stated is None else int(stated[1])

    @abstractmethod
    def _parse(self, data: bytes) -> bytes:
        """Parse complete parts, and return the rest."""

    def _add(self, name: bytes, value: Any) -> None:
        path = "" if self._single else name.decode("utf-8", "surrogateescape").removeprefix("./")
        if self._fits is None or self._fits(path):
            self.files[path] = value

    def in_order(self) -> Iterator[tuple[str, Any]]:
        """Yield the files by path."""
        return ((path, self.files[path]) for path in sorted(self.files))


class FoundFiles(Findings):
    """Paths, each followed by a NUL."""

    mark = b"\0"

    def _parse(self, data: bytes) -> bytes:
        *names, rest = data.split(b"\0")
        for name in names:
            self._add(name, None)
        return rest


class FoundCounts(Findings):
    """Paths, each followed by a NUL, a number and a line feed."""

    mark = b"\n"

    def _parse(self, data: bytes) -> bytes:
        end = 0
        for found in re.finditer(rb"([^\0]*)\0(\d+)\r?\n", data):
            self._add(found[1], int(found[2]))
            end = found.end()
        return data[end:]


class FoundLines(Findings):
    """Paths, each followed by a NUL, its lines and a blank line. Lines begin with their number; none has a NUL in it.

    They are kept by file, and parsed when needed. A binary file is left out: among its lines is one
    without a number, which begins with its path.
    """

    mark = b"\0"

    def __init__(self, fits: Fits | None, single: bool = False) -> None:
        super().__init__(fits, single)
        #: Whether a file was left out because it is binary.
        self.has_binary = False
        #: The file whose lines come next.
        self._path: bytes | None = None

    def _parse(self, data: bytes) -> bytes:
        *parts, rest = data.split(b"\0")
        for part in parts:
            self._path = self._after_lines(part)
        return rest

    def _after_lines(self, part: bytes) -> bytes:
        """Keep the lines of the current file, and return the rest: the path of the next."""
        path = self._path
        if path is None:
            return part
        if b"\n" in path:
            end, is_binary = _end_of_lines(part, path)
        elif (end := part.find(_BLANK) + 1) == 0:
            return part
        else:
            is_binary = not part[part.rfind(b"\n", 0, end - 1) + 1 : end][:1].isdigit()
        if is_binary:
            self.has_binary = True
        elif end:
            self._add(path, part[:end])
        return part[end:].lstrip(b"\n")

    def close(self) -> None:
        """Keep the lines of the last file."""
        rest = b"".join(self._pieces)
        if self._path is not None:
            # Of a file that was not read to its end the last line may be a part of one.
            whole = rest if _BLANK in rest else rest[: rest.rfind(b"\n") + 1] + b"\n"
            self._pieces = [self._after_lines(whole)]
            self._path = None
        elif self._single and rest:
            self.has_binary = True


def _end_of_lines(part: bytes, path: bytes) -> tuple[int, bool]:
    """Return where the lines of a file end whose path has line breaks, and whether the file is binary."""
    lines = _LINES.match(part)
    end = 0 if lines is None else lines.end()
    if not part.startswith(path + b": ", end):
        return end, False
    return part.find(b"\n", end + len(path)) + 1, True


def count_entries(lines: bytes, has_context: bool) -> tuple[int, int]:
    """Return how many lines there are, and how many of them match."""
    count = lines.count(b"\n")
    return count, len(_MATCH.findall(lines)) if has_context else count


def entries(lines: bytes) -> Iterator[Entry]:
    """Yield the lines of a file."""
    for line in lines.split(b"\n"):
        if found := _LINE.fullmatch(line):
            # All of them: ripgrep adds one to a last line that no line feed ends.
            text = found[3].decode("utf-8", "replace").rstrip("\r")
            yield Entry(int(found[1]), text, found[2] == b":")


class Counted:
    """How many names a list has that ends each with a null byte."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, data: bytes) -> bool:
        """Count what comes; it is never enough."""
        self.count += data.count(b"\0")
        return False
