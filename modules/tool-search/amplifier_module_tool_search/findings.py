"""Read what the searching process writes: paths, counts or lines, however they are cut into pieces."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

#: More than this is not read: whoever finds that much must search for something else.
MOST_BYTES: Final = 64 * 1024 * 1024

_PATH: Final = b'{"type":"begin","data":{"path":{"text":"'
_NOT_BINARY: Final = b'"binary_offset":null'

Fits = Callable[[str], bool]


class Entry(NamedTuple):
    """One line of a file, or a part of the answer about it."""

    number: int
    text: str
    is_match: bool


class Findings:
    """What was found so far, by file; files that do not fit are left out. `single` names the one file searched."""

    def __init__(self, fits: Fits, single: bool = False) -> None:
        self._fits = fits
        self._single = single
        self._rest = b""
        self._read = 0
        self.files: dict[str, Any] = {}

    def take(self, data: bytes) -> bool:
        """Read another piece; return True when it is enough."""
        self._read += len(data)
        self._rest = self._parse(self._rest + data if self._rest else data)
        return self._read > MOST_BYTES

    def _parse(self, data: bytes) -> bytes:
        raise NotImplementedError

    def _add(self, name: bytes, value: Any) -> None:
        path = "" if self._single else name.decode("utf-8", "surrogateescape").removeprefix("./")
        if self._fits(path):
            self.files[path] = value

    def in_order(self) -> Iterator[tuple[str, Any]]:
        """Yield the files by path."""
        return iter(sorted(self.files.items()))


class FoundFiles(Findings):
    """Paths, each followed by a NUL."""

    def _parse(self, data: bytes) -> bytes:
        *names, rest = data.split(b"\0")
        for name in names:
            self._add(name, None)
        return rest


class FoundCounts(Findings):
    """Paths, each followed by a NUL, a number and a line feed."""

    def _parse(self, data: bytes) -> bytes:
        end = 0
        for found in re.finditer(rb"([^\0]*)\0(\d+)\r?\n", data):
            self._add(found[1], int(found[2]))
            end = found.end()
        return data[end:]


class FoundLines(Findings):
    """Messages in JSON; they are understood when they are needed. A file that turns out to be binary is left out."""

    def __init__(self, fits: Fits, single: bool = False) -> None:
        super().__init__(fits, single)
        self._name = b""
        self._lines: list[bytes] = []
        #: How many messages are about matches.
        self.matches = 0
        self._matches = 0
        #: Whether a file was left out because it is binary.
        self.has_binary = False

    def _parse(self, data: bytes) -> bytes:
        *messages, rest = data.split(b"\n")
        for message in messages:
            if message.startswith(b'{"type":"match"'):
                self._lines.append(message)
                self._matches += 1
            elif message.startswith(b'{"type":"context"'):
                self._lines.append(message)
            elif message.startswith(b'{"type":"begin"'):
                self._name = _named(message)
                self._lines, self._matches = [], 0
            elif message.startswith(b'{"type":"end"'):
                self._end(_NOT_BINARY not in message)
        return rest

    def _end(self, is_binary: bool) -> None:
        lines, self._lines = self._lines, []
        if is_binary:
            self.has_binary = True
            return
        if not lines:
            return
        before = len(self.files)
        self._add(self._name, lines)
        self.matches += self._matches if len(self.files) > before else 0

    def close(self) -> None:
        """Keep what is known of a file that was not read to its end."""
        self._end(False)


def entries(message: bytes) -> list[Entry]:
    """Return the lines that one message is about; a match may span several."""
    data = json.loads(message)["data"]
    text = _bytes(data["lines"]).decode("utf-8", "replace")
    is_match = message.startswith(b'{"type":"match"')
    lines = text.removesuffix("\n").split("\n")
    return [Entry(data["line_number"] + place, line.removesuffix("\r"), is_match) for place, line in enumerate(lines)]


def _named(message: bytes) -> bytes:
    """Return the path that a message begins with; the usual ones without understanding all of it."""
    if message.startswith(_PATH) and message.endswith(b'"}}}') and b"\\" not in message:
        return message[len(_PATH) : -4]
    return _bytes(json.loads(message)["data"]["path"])


def _bytes(value: dict[str, str]) -> bytes:
    return value["text"].encode("utf-8", "surrogateescape") if "text" in value else b64decode(value["bytes"])
