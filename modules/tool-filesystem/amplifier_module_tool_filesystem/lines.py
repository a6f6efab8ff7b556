"""Read some lines of a file of any size, and count the rest, within bounds."""

from __future__ import annotations

import codecs
import os
import threading
from dataclasses import field
from typing import BinaryIO, Final

from amplifier_kit.guard.files.changes import Stopped
from amplifier_kit.guard.files.place import FileError
from amplifier_kit.guard.files.text import SAMPLE, is_binary, newline_of, sniff
from amplifier_kit.struct import Struct

__all__ = ["LONGEST_LINE", "MOST_CHARACTERS", "Window", "read_window"]

#: Characters of a line that are shown.
LONGEST_LINE: Final = 2000
#: Characters that are shown at once, the numbers of the lines among them.
MOST_CHARACTERS: Final = 256_000
#: Bytes of a file that are examined.
MOST_BYTES: Final = 256 * 1024 * 1024
_CHUNK: Final = 1 << 20


class Window(Struct):
    """The requested lines, and facts about the file."""

    offset: int
    lines: list[str] = field(default_factory=list)
    total: int = 0
    #: Notes for the reader, in sentences.
    notes: list[str] = field(default_factory=list)

    @property
    def content(self) -> str:
        """Return the lines with their numbers."""
        return "\n".join(_numbered(number, line) for number, line in enumerate(self.lines, self.offset))


def read_window(file: BinaryIO, name: str, offset: int, limit: int, stop: threading.Event) -> Window:
    """Return up to `limit` lines from `offset` on; raises FileError for a binary file, OSError, and Stopped."""
    sample = file.read(SAMPLE)
    size = os.fstat(file.fileno()).st_size
    if is_binary(sample):
        raise FileError(
            "binary_file", f"{name} is a binary file ({size:,} bytes, it begins with {sample[:8].hex(' ')}), not text"
        )
    window = Window(offset)
    encoding, mark = sniff(sample)
    if encoding == "utf-8":
        encoding = _eight_bit(sample, window)
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    newline, _ = newline_of(decoder.decode(sample[len(mark) :]))
    decoder.reset()
    splitter = _LineSplitter(window, limit, "\r" if newline == "\r" else "\n")
    chunk, seen = sample[len(mark) :], len(sample)
    while chunk:
        if stop.is_set():
            raise Stopped
        splitter.take(decoder.decode(chunk))
        chunk = file.read(min(_CHUNK, MOST_BYTES - seen))
        seen += len(chunk)
    if file.read(1):
        window.notes.append(
            f"The file has {size:,} bytes; only the first {MOST_BYTES:,} were looked at, and total_lines counts those."
        )
    splitter.take(decoder.decode(b"", True))
    splitter.finish()
    return window


class _LineSplitter:
    """Cut a stream of text into lines, keep those of the window and count the others."""

    def __init__(self, window: Window, limit: int, newline: str) -> None:
        self._window = window
        self._last = window.offset + limit - 1
        self._newline = newline
        self._begun = ""
        self._characters = 0
        self._cut: list[int] = []
        self._is_full = False
        self._is_replaced = False

    def take(self, text: str) -> None:
        """Take the next piece of text."""
        self._is_replaced = self._is_replaced or "�" in text
        if self._window.total >= self._last or self._is_full:
            self._window.total += text.count(self._newline)
            if text:
                self._begun = "" if text.endswith(self._newline) else "x"
            return
        *lines, rest = text.split(self._newline)
        for line in lines:
            self._line(self._begun + line)
            self._begun = ""
        # Characters that are cut from the line anyway are not collected.
        self._begun = (self._begun + rest)[: LONGEST_LINE + 2]

    def finish(self) -> None:
        """Take the last line, which may have no line end, and add notes about omissions."""
        window = self._window
        if self._begun:
            self._line(self._begun)
        if self._cut:
            listed = ", ".join(map(str, self._cut[:10])) + (" and others" if len(self._cut) > 10 else "")
            window.notes.append(f"Cut at {LONGEST_LINE} characters: line {listed}.")
        if self._is_replaced:
            window.notes.append("Bytes that are not UTF-8 text, and existing replacement characters, are shown as �.")
        following = window.offset + len(window.lines)
        if not window.total:
            window.notes.append("The file is empty.")
        elif window.offset > window.total:
            window.notes.append(f"Line {window.offset} does not exist: the file has {window.total}.")
        elif self._is_full:
            window.notes.append(f"{MOST_CHARACTERS:,} characters are shown at most: go on with offset {following}.")

    def _line(self, line: str) -> None:
        window = self._window
        window.total += 1
        if not window.offset <= window.total <= self._last or self._is_full:
            return
        line = line.removesuffix("\r")
        if len(line) > LONGEST_LINE:
            line = line[:LONGEST_LINE]
            self._cut.append(window.total)
        # Count the line number and line end too: otherwise empty lines would never reach the limit.
        size = len(_numbered(window.total, line)) + 1
        if window.lines and self._characters + size > MOST_CHARACTERS:
            self._is_full = True
            return
        self._characters += size
        window.lines.append(line)


def _numbered(number: int, line: str) -> str:
    return f"{number:6d}\t{line}"


def _eight_bit(sample: bytes, window: Window) -> str:
    """Return how bytes without a mark are best shown: as UTF-8, or letter by letter where they mostly are not that."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    text = decoder.decode(sample)
    wrong = sum("\udc80" <= character <= "\udcff" for character in text)
    if not wrong or wrong < sum(character > "\x7f" for character in text) - wrong:
        return "utf-8"
    window.notes.append("The file is not UTF-8 and is shown as Latin-1; edits can put nothing but ASCII into it.")
    return "latin-1"
