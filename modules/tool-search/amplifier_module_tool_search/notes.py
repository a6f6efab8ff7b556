"""Collect notes about a search beside its results: files that could not be read or were left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_MOST_NAMED: Final = 5
_MOST_LINE: Final = 8192
_TOO_LARGE: Final = re.compile(r"ignoring (?:\./)?(.+): (\d+) bytes$")
_UNREADABLE: Final = re.compile(r"(?:rg: )?(?:\./)?(.+?): (?:(.+) \(os error \d+\)|(PCRE2: .+))$")
_BEFORE: Final = re.compile(r"(?:rg: |ignoring )?(?:\./)?")
#: Lines of .gitignore that ripgrep does not understand: those have no meaning, here as there.
_LOG: Final = re.compile(r"(?:rg: )?.*\.gitignore: line \d+: ")


class Notes:
    """Read the stderr of a searching process and make notes of it, without the names of hidden paths."""

    def __init__(self, hides: Callable[[str], bool] | None = None) -> None:
        self._hides = hides
        self._rest = b""
        self._too_large: list[str] = []
        self._unreadable: list[str] = []
        self._counts = {"large": 0, "unreadable": 0}
        #: Other lines: why a search failed.
        self.complaints: list[str] = []

    def take(self, data: bytes) -> bool:
        """Read another piece."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_MOST_LINE:]
        for line in lines:
            self._hear(line.decode("utf-8", "replace").rstrip())
        return False

    def close(self) -> None:
        """Read a last line without a line feed."""
        self.take(b"\n")

    def _hear(self, line: str) -> None:
        if large := _TOO_LARGE.match(line):
            self._note("large", self._too_large, f"{large[1]} ({int(large[2]):,} bytes)", line)
        elif _LOG.match(line):
            return
        elif unreadable := _UNREADABLE.match(line):
            self._note("unreadable", self._unreadable, f"{unreadable[1]} ({unreadable[2] or unreadable[3]})", line)
        elif line and len(self.complaints) < 20:
            self.complaints.append(line[:500])

    def _note(self, kind: str, named: list[str], text: str, line: str) -> None:
        if self._hides is not None:
            if "\ufffd" in line:
                text = "a name that is not UTF-8"  # and cannot be judged
            elif any(map(self._hides, _possible_paths(line))):
                return
        self._counts[kind] += 1
        if len(named) < _MOST_NAMED:
            named.append(text)

    @property
    def has_unreadable(self) -> bool:
        return self._counts["unreadable"] > 0

    def texts(self, max_file_size: int, *, is_empty: bool) -> list[str]:
        """Return the notes as text; files that are too large are named only when nothing was found."""
        texts = []
        if self._counts["large"] and is_empty:
            what = f"larger than {max_file_size:,} bytes, not searched: "
            texts.append(what + _list(self._too_large, self._counts["large"]))
        if self._counts["unreadable"]:
            texts.append("cannot be read: " + _list(self._unreadable, self._counts["unreadable"]))
        return texts


def _possible_paths(line: str) -> list[str]:
    """Return the possible paths in a line: a path may contain the text that separates it from the rest."""
    text = _BEFORE.sub("", line, count=1)
    return [text[: found.start()] for found in re.finditer(": ", text)]


def _list(named: list[str], count: int) -> str:
    more = f" and {count - len(named)} more" if count > len(named) else ""
    return ", ".join(sorted(named)) + more
