"""Find the lines of a file that match, by the same rules as ripgrep."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from amplifier_module_tool_search.utf8_patterns import valid_only

#: ripgrep decides whether a file is binary by the bytes before the first match: at least this many.
FIRST_READ: Final = 65536
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


class Line(NamedTuple):
    """One line of an answer; `number` counts from 1."""

    number: int
    text: str
    is_match: bool


class Pattern:
    """A pattern to search for; raises re.error when it is invalid."""

    def __init__(self, pattern: str, *, ignore_case: bool, multiline: bool) -> None:
        flags = re.IGNORECASE if ignore_case else re.NOFLAG
        flags |= re.MULTILINE | re.DOTALL if multiline else re.NOFLAG
        with warnings.catch_warnings():
            # What Python warns of means something else in another engine.
            warnings.simplefilter("error")
            try:
                self._regex = re.compile(pattern, flags)
                #: For text with invalid UTF-8.
                self._valid = valid_only(pattern, flags)
            except (FutureWarning, DeprecationWarning) as warning:
                raise re.error(str(warning)) from None
            except (RecursionError, OverflowError) as error:
                raise re.error(f"it is too large ({error})") from None
        is_literal = not ignore_case and not multiline and re.escape(pattern) == pattern
        #: Bytes without which a file cannot match.
        self._needle = pattern.encode("utf-8", "surrogateescape") if is_literal else b""
        self._is_multiline = multiline

    def numbers(self, data: bytes) -> tuple[list[str] | None, list[int]]:
        """Return the lines of a file and the indexes of those that match; None for the lines when it is binary."""
        if data[:2] in _UTF16:
            data = data.decode("utf-16", "replace").encode("utf-8", "surrogatepass")
        if b"\0" in data:
            return None, []
        if self._needle not in data:
            return [], []
        text, regex = self._read(data.removeprefix(b"\xef\xbb\xbf"))
        lines = _lines(text)
        if self._is_multiline:
            return lines, _spanning(regex, text, len(lines))
        search = regex.search
        return lines, [index for index, line in enumerate(lines) if search(line.removesuffix("\r"))]

    def is_in(self, data: bytes) -> bool:
        """Return whether a file matches; a NUL long after the first match does not make it binary."""
        if data[:2] in _UTF16 or self._is_multiline or b"\0" not in data:
            return bool(self.numbers(data)[1])
        if b"\0" in data[:FIRST_READ]:
            return False
        text, regex = self._read(data[: data.index(b"\0")])
        return any(regex.search(line.removesuffix("\r")) for line in _lines(text))

    def _read(self, data: bytes) -> tuple[str, re.Pattern[str]]:
        """Return the text, and what to search it with."""
        try:
            return data.decode("utf-8"), self._regex
        except UnicodeDecodeError:
            return data.decode("utf-8", "surrogateescape"), self._valid


def _spanning(regex: re.Pattern[str], text: str, count: int) -> list[int]:
    found: set[int] = set()
    place, index = 0, 0
    for match in regex.finditer(text):
        index += text.count("\n", place, match.start())
        place = match.start()
        last = max(match.end() - 1, match.start())
        found.update(range(index, index + text.count("\n", place, last) + 1))
    return sorted(number for number in found if number < count)


def with_context(lines: list[str], found: list[int], before: int, after: int) -> Iterator[Line]:
    """Yield the lines that match and those around them, each once, in order."""
    matching = frozenset(found)
    for index in _around(found, before, after, len(lines)) if before or after else found:
        yield Line(index + 1, lines[index], index in matching)


def _around(found: Iterable[int], before: int, after: int, count: int) -> Iterator[int]:
    following = 0
    for index in found:
        start = max(index - before, following)
        following = min(index + after + 1, count)
        yield from range(start, following)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines
