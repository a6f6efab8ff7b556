"""Read what a search writes: files, counts or lines on stdout, trouble on stderr."""

from __future__ import annotations

import base64
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from amplifier_core.named_tuple import NamedTuple

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
        #: How many files were searched; None where the output does not say, as JSON.
        self.searched: int | None = None

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
        if stated := re.search(rb"^(\d+) files searched$", self._rest, re.MULTILINE):
            self.searched = int(stated[1])

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


class PathCount(PathOutput):
    """How many paths there are."""

    count = 0

    def _parse(self, data: bytes) -> bytes:
        self.count += data.count(b"\0")
        return b""


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
#: Lines of .gitignore that ripgrep does not understand: those have no meaning.
_IGNORED: Final = re.compile(r"(?:rg: )?.*\.gitignore: line \d+: ")


class Notes:
    """Notes about files that could not be searched, without the names of hidden paths."""

    def __init__(self, hides: Callable[[str], bool] | None = None) -> None:
        self._hides = hides
        #: Each once, although a search may look at the same folder several times.
        self._named: dict[str, dict[str, None]] = {"large": {}, "unreadable": {}}
        #: Other lines: why a search failed.
        self.complaints: list[str] = []

    def read(self, stderr: bytes) -> None:
        """Read what a search has written to stderr."""
        for line in stderr.decode("utf-8", "replace").splitlines():
            if _IGNORED.match(line) or not line.strip():
                continue
            if found := _UNREADABLE.match(line):
                self._add_unreadable(found, line)
            elif len(self.complaints) < 20:
                self.complaints.append(line[:500])

    def add_large(self, path: str, size: int) -> None:
        """Note a file that was not searched because it is too large."""
        self._named["large"][f"{path} ({size:,} bytes)"] = None

    def _add_unreadable(self, found: re.Match[str], line: str) -> None:
        text = f"{found[1]} ({found[2] or found[3]})"
        if self._hides is not None:
            if "\ufffd" in line:
                text = "a name that is not UTF-8"  # and cannot be judged
            elif any(map(self._hides, _possible_paths(line))):
                return
        self._named["unreadable"][text] = None

    @property
    def has_unreadable(self) -> bool:
        return bool(self._named["unreadable"])

    def texts(self, max_file_size: int) -> list[str]:
        """Return the notes as text."""
        whats = {"large": f"larger than {max_file_size:,} bytes, not searched", "unreadable": "cannot be read"}
        return [f"{what}: {_join(list(self._named[kind]))}" for kind, what in whats.items() if self._named[kind]]


def _possible_paths(line: str) -> list[str]:
    """Return the possible paths in a line: a path may contain the text that separates it from the rest."""
    text = _PREFIX.sub("", line, count=1)
    return [text[: found.start()] for found in re.finditer(": ", text)]


def _join(named: list[str]) -> str:
    more = f" and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    return ", ".join(sorted(named[:_MAX_NAMED])) + more
