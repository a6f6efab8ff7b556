"""Collect the output of a command: all of it up to a limit, else its beginning and its end."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Final

from amplifier_kit.guard.redaction.stream import ESCAPES, SEPARATOR
from amplifier_kit.named_tuple import NamedTuple

#: After this many bytes, reading may slow down.
FLOOD: Final = 64 * 1024 * 1024
#: The fraction of the limit that is shown of the beginning, and of the end.
_SHARE: Final = 0.4
#: Bytes of the end that are searched for the last line.
_LINE_LIMIT: Final = 2000

_ESCAPES: Final = ESCAPES
_CONTROLS: Final = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
_REPLACEMENT: Final = "\ufffd"
#: Output with a larger fraction of undecodable bytes and control characters is binary.
_BINARY_SHARE: Final = 0.3
_BINARY_SAMPLE: Final = 8192
_SPACE: Final = r"\s"
#: A long line is cut between words: half a word could be half a secret, which redaction would not recognise.
_LONGEST_WORD: Final = 1024


class Shown(NamedTuple):
    """The part of a stream that fits into a result."""

    text: str
    is_cut: bool
    total: int
    #: The file with the whole output, where the caller keeps one, or why it is missing.
    path: Path | None = None
    problem: str = ""


class Output:
    """One output stream of a command, in bounded memory."""

    def __init__(self, limit: int) -> None:
        """Show up to `limit` bytes."""
        self._limit = limit
        self._part = max(1, int(limit * _SHARE))
        self._start = bytearray()
        self._end = bytearray()
        self.total = 0

    @property
    def is_flood(self) -> bool:
        return self.total > FLOOD

    def feed(self, data: bytes) -> None:
        """Take the next bytes; never raises."""
        was_short = self.total <= self._limit
        self.total += len(data)
        if self.total <= self._limit:
            self._start += data
            return
        if was_short:
            self._end += self._start
            self._start += data
            del self._start[self._part :]
        self._end += data
        if len(self._end) > 2 * self._part:
            del self._end[: -self._part]

    def close(self) -> None:
        """Called when the stream has ended; subclasses override it."""

    def last_line(self) -> str:
        """Return the last line that is not blank, without words that may be incomplete."""
        kept = self._end or self._start
        text = _decode(bytes(kept[-_LINE_LIMIT:])).replace("\r", "\n")
        if len(kept) > _LINE_LIMIT and (first := re.search(_SPACE, text)):
            text = text[first.end() :]
        if text and not text[-1].isspace():
            text = text[: max(text.rfind(space) for space in " \t\n") + 1]
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")

    def shown(self) -> Shown:
        """Return what to show of the output so far."""
        is_cut = self.total > self._limit
        if is_cut:
            head, tail = _cut_head(bytes(self._start[: self._part])), _cut_tail(bytes(self._end[-self._part :]))
        else:
            head, tail = bytes(self._start), b""
        if is_binary(head) or is_binary(tail):
            text = f"[binary output, {self.total:,} bytes{self._remark()}]"
        elif is_cut:
            begin = _decode(head)
            line_end = "" if begin.endswith("\n") or not begin else "\n"
            omitted = self.total - len(head) - len(tail)
            text = f"{begin}{line_end}[... {omitted:,} bytes left out here{self._remark()} ...]\n{_decode(tail)}"
        else:
            text = _decode(head)
        return Shown(text, is_cut, self.total)

    def _remark(self) -> str:
        """Return where the rest is."""
        return ""


def _decode(data: bytes) -> str:
    """Decode UTF-8 without terminal control sequences; other bytes and control characters become U+FFFD."""
    return re.sub(_CONTROLS, _REPLACEMENT, re.sub(_ESCAPES, "", data.decode("utf-8", "replace")))


def is_binary(data: bytes) -> bool:
    """Return whether output is not text."""
    sample = data[:_BINARY_SAMPLE]
    if len(sample) < 8:
        return False
    text = _decode(sample)
    return text.count(_REPLACEMENT) > _BINARY_SHARE * len(text)


def _cut_head(data: bytes) -> bytes:
    """Cut the last line off, or the last word or character of a very long line."""
    end = data.rfind(b"\n") + 1
    if end > len(data) // 2:
        return data[:end]
    if words := list(SEPARATOR.finditer(data, max(len(data) // 2, len(data) - _LONGEST_WORD))):
        return data[: words[-1].end()]
    # Not final: an incomplete character at the end is not consumed.
    return data[: codecs.utf_8_decode(data, "replace", False)[1]]


def _cut_tail(data: bytes) -> bytes:
    """Cut the first line off, or the first word or character of a very long line."""
    start = data.find(b"\n") + 1
    if 0 < start < len(data) - len(data) // 2:
        return data[start:]
    if word := SEPARATOR.search(data, 0, min(len(data) // 2, _LONGEST_WORD)):
        return data[word.start() :]
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
