"""Read what a search writes: files, counts or lines on stdout, trouble on stderr."""

from __future__ import annotations

import base64
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from amplifier_kit.named_tuple import NamedTuple

#: More than this is not read: such a search must be narrowed.
MAX_BYTES: Final = 128 * 1024 * 1024
#: Bytes that are collected before they are parsed.
_BATCH: Final = 256 * 1024


class Entry(NamedTuple):
    """One line of a file."""

    number: int
    text: str
    is_match: bool


class Output(ABC):
    """The files found so far, with what was found in them; files that do not fit are left out."""

    def __init__(self, fits: Callable[[str], bool] | None = None) -> None:
        self._fits = fits
        self._pieces: list[bytes] = []
        self._unread = self._size = 0
        self._rest = b""
        self.files: dict[str, Any] = {}

    def take(self, data: bytes) -> bool:
        """Read another piece; return True when it is enough."""
        self._pieces.append(data)
        self._size += len(data)
        self._unread += len(data)
        if self._unread >= _BATCH:
            self._pieces = [self._parse(b"".join(self._pieces))]
            self._unread = 0
        return self.is_too_much

    @property
    def is_too_much(self) -> bool:
        return self._size > MAX_BYTES

    def close(self) -> None:
        """Read the rest."""
        self._rest = self._parse(b"".join(self._pieces))
        self._pieces = []

    @abstractmethod
    def _parse(self, data: bytes) -> bytes:
        """Parse complete parts, and return the rest."""

    def _add(self, path: str, value: Any) -> None:
        path = path.removeprefix("./")
        if self._fits is None or self._fits(path):
            self.files[path] = value

    def in_order(self) -> Iterator[tuple[str, Any]]:
        """Yield the files by path."""
        return ((path, self.files[path]) for path in sorted(self.files))


class PathOutput(Output):
    """Paths, each followed by a NUL."""

    def _parse(self, data: bytes) -> bytes:
        # All at once: there may be very many.
        end = data.rfind(b"\0") + 1
        names = [name.removeprefix("./") for name in os.fsdecode(data[:end]).split("\0")[:-1]]
        self.files.update(dict.fromkeys(names if self._fits is None else filter(self._fits, names)))
        return data[end:]


class CountOutput(Output):
    """Paths, each followed by a NUL, a number and a line feed."""

    def _parse(self, data: bytes) -> bytes:
        end = 0
        for found in re.finditer(rb"([^\0]*)\0(\d+)\r?\n", data):
            self._add(os.fsdecode(found[1]), int(found[2]))
            end = found.end()
        return data[end:]


class LineOutput(Output):
    """JSON as `rg --json` writes it. The lines of a file are kept as they come, and parsed when needed.

    No text of a file or a name looks like the beginning of a message: there the quotes are escaped.
    """

    _BEGIN: Final = b'{"type":"begin",'
    _END: Final = b'\n{"type":"end",'

    def __init__(self, fits: Callable[[str], bool] | None = None, *, is_single: bool = False) -> None:
        super().__init__(fits)
        self._is_single = is_single
        #: Whether a file was left out because it is binary.
        self.has_binary = False

    def _parse(self, data: bytes) -> bytes:
        *parts, rest = data.split(self._BEGIN)
        for part in parts:
            self._add_lines(part)
        return rest

    def close(self) -> None:
        super().close()
        self._add_lines(self._rest)

    def _add_lines(self, part: bytes) -> None:
        """Keep the lines of one file; of one that was not read to its end, the complete ones."""
        start = part.find(b"\n") + 1
        end = part.rfind(self._END) + 1 or part.rfind(b"\n") + 1
        if not part.startswith(b'"data":') or not start:
            return
        if b'"binary_offset":' in part[end:] and b'"binary_offset":null' not in part[end:]:
            self.has_binary = True
        elif end > start:
            path = json.loads(b"{" + part[:start])["data"]["path"]
            self._add("" if self._is_single else os.fsdecode(_bytes(path)), part[start:end])


def count_entries(lines: bytes, *, is_multiline: bool) -> tuple[int, int]:
    """Return how many lines there are, and how many of them match."""
    if is_multiline:
        found = list(entries(lines))
        return len(found), sum(entry.is_match for entry in found)
    return lines.count(b"\n"), lines.count(b'{"type":"match"')


def entries(lines: bytes) -> Iterator[Entry]:
    """Yield the lines of a file."""
    for line in lines.splitlines():
        message = json.loads(line)
        data = message["data"]
        text = _bytes(data["lines"]).decode("utf-8", "replace").removesuffix("\n")
        for number, one in enumerate(text.split("\n"), data["line_number"]):
            yield Entry(number, one.rstrip("\r"), message["type"] == "match")


def _bytes(value: Mapping[str, str]) -> bytes:
    """Return a text of a message; one that is not UTF-8 is encoded."""
    return value["text"].encode("utf-8", "replace") if "text" in value else base64.b64decode(value["bytes"])


# --- stderr ---

_MAX_NAMED: Final = 5
_UNREADABLE: Final = re.compile(r"(?:rg: )?(?:\./)?(.+?): (?:(.+) \(os error \d+\)|(PCRE2: .+))$")
_PREFIX: Final = re.compile(r"(?:rg: )?(?:\./)?")
#: Lines of .gitignore that ripgrep does not understand, which have no meaning, and its log.
_IGNORED: Final = re.compile(r"(?:rg: )?.*\.gitignore: line \d+: |rg: DEBUG\|")
#: In the log: a file that is larger than the search allows.
_LARGE: Final = re.compile(r"rg: DEBUG\|ignore::walk\|.*?: ignoring (?:\./)?(.+): (\d+) bytes$")


class Notes:
    """Notes about files that could not be searched, without the names of hidden paths."""

    def __init__(self, hides: Callable[[str], bool] | None = None) -> None:
        self._hides = hides
        #: The sizes of files that were not searched because they are too large.
        self.large: dict[str, int] = {}
        #: Each once, although a search may look at the same folder several times.
        self._unreadable: dict[str, None] = {}
        #: Other lines: why a search failed.
        self.complaints: list[str] = []

    def read(self, stderr: bytes) -> None:
        """Read what a search has written to stderr."""
        for line in stderr.decode("utf-8", "replace").splitlines():
            if found := _LARGE.match(line):
                if not self._may_be_hidden([found[1]]):
                    self.large[found[1]] = int(found[2])
            elif _IGNORED.match(line) or not line.strip():
                continue
            elif found := _UNREADABLE.match(line):
                if self._hides is not None and "\ufffd" in line:
                    self._unreadable["a name that is not UTF-8"] = None
                elif not self._may_be_hidden(_possible_paths(line)):
                    self._unreadable[f"{found[1]} ({found[2] or found[3]})"] = None
            elif len(self.complaints) < 20:
                self.complaints.append(line[:500])

    def _may_be_hidden(self, paths: list[str]) -> bool:
        return self._hides is not None and any("\ufffd" in path or self._hides(path) for path in paths)

    @property
    def has_unreadable(self) -> bool:
        return bool(self._unreadable)

    def texts(self, max_file_size: int) -> list[str]:
        """Return the notes as text."""
        large = [f"{path} ({size:,} bytes)" for path, size in sorted(self.large.items())]
        notes = [f"larger than {max_file_size:,} bytes, not searched: {_join(large)}"] if large else []
        return [*notes, f"cannot be read: {_join(list(self._unreadable))}"] if self._unreadable else notes


def _possible_paths(line: str) -> list[str]:
    """Return the possible paths in a line: a path may contain the text that separates it from the rest."""
    text = _PREFIX.sub("", line, count=1)
    return [text[: found.start()] for found in re.finditer(": ", text)]


def _join(named: list[str]) -> str:
    more = f" and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    return ", ".join(sorted(named[:_MAX_NAMED])) + more
