"""Read what the searching process writes: paths, counts or lines, however they are cut into pieces."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

#: More than this is not read: whoever finds that much must search for something else.
MOST_BYTES: Final = 64 * 1024 * 1024

_BEGIN: Final = b'{"type":"begin","data":{"path":'
_MATCH: Final = b'{"type":"match"'
_CONTEXT: Final = b'{"type":"context"'
_END: Final = b'{"type":"end"'
_NOT_BINARY: Final = b'"binary_offset":null'

Fits = Callable[[str], bool]


class Entry(NamedTuple):
    """One line of a file, or a part of the answer about it."""

    number: int
    text: str
    is_match: bool


class Findings(ABC):
    """What was found so far, by file; files that do not fit are left out. `single`: there is one file only."""

    #: What ends a part that can be understood.
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

    @abstractmethod
    def _parse(self, data: bytes) -> bytes:
        """Understand what can be understood, and return the rest."""

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
    """Messages in JSON, kept by file and understood when they are needed. A binary file is left out."""

    mark = _BEGIN

    def __init__(self, fits: Fits | None, single: bool = False) -> None:
        super().__init__(fits, single)
        #: Whether a file was left out because it is binary.
        self.has_binary = False

    def _parse(self, data: bytes) -> bytes:
        first, *blocks = data.split(_BEGIN)
        if not blocks:
            return first
        for block in blocks[:-1]:
            self._keep(block)
        return _BEGIN + blocks[-1]

    def _keep(self, block: bytes) -> None:
        head, _, body = block.partition(b"\n")
        end = body.rfind(_END)
        if end >= 0 and _NOT_BINARY not in body[end:]:
            self.has_binary = True
            return
        # Of a file that was not read to its end the last message may be a part of one.
        body = body[: end if end >= 0 else body.rfind(b"\n") + 1]
        if body:
            self._add(_path(head), body)

    def close(self) -> None:
        """Keep what is known of the last file."""
        _, *blocks = b"".join(self._pieces).split(_BEGIN)
        self._pieces = []
        for block in blocks:
            self._keep(block)


def count_entries(messages: bytes, multiline: bool) -> tuple[int, int]:
    """Return how many lines messages are about, and how many of them match."""
    if multiline:
        kinds = [entry.is_match for entry in entries(messages)]
        return len(kinds), sum(kinds)
    matches = messages.count(_MATCH)
    return matches + messages.count(_CONTEXT), matches


def entries(messages: bytes) -> Iterator[Entry]:
    """Yield the lines that messages are about; a match may span several."""
    for message in messages.splitlines():
        is_match = message.startswith(_MATCH)
        if not is_match and not message.startswith(_CONTEXT):
            continue
        data = json.loads(message)["data"]
        text = _bytes(data["lines"]).decode("utf-8", "replace")
        for place, line in enumerate(text.removesuffix("\n").split("\n"), data["line_number"]):
            yield Entry(place, line.removesuffix("\r"), is_match)


def _path(head: bytes) -> bytes:
    """Return the path in the rest of a message that begins a file; the usual ones without understanding all of it."""
    if head.startswith(b'{"text":"') and head.endswith(b'"}}}') and b"\\" not in head:
        return head[9:-4]
    return _bytes(json.loads(_BEGIN + head)["data"]["path"])


def _bytes(value: dict[str, str]) -> bytes:
    return value["text"].encode("utf-8", "surrogateescape") if "text" in value else b64decode(value["bytes"])


class Counted:
    """How many names a list has that ends each with a null byte."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, data: bytes) -> bool:
        """Count what comes; it is never enough."""
        self.count += data.count(b"\0")
        return False
