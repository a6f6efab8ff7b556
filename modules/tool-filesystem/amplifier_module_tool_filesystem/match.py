"""Find the text that an edit is about: exactly, but for line ends; nearly, only where there is one such place.

A model sees lines without their ends, so `\\n` in its text means the line end of the file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from amplifier_kit.guard.files.place import LARGEST_TEXT, FileError
from amplifier_kit.guard.files.text import LineMatch, Text, find_lines
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_filesystem.nearest import nearest

__all__ = ["Edited", "edit"]

_MOST_NAMED: Final = 10
#: Places that are counted where one alone is wanted.
_MOST_COUNTED: Final = 1000


class Edited(NamedTuple):
    """The new text, the number of replacements, and notes about inexact matches."""

    text: str
    replacements: int
    notes: list[str]


class _Span(NamedTuple):
    """A place in the text with plain line ends, and what shall stand there."""

    start: int
    end: int
    new: str


def edit(source: Text, name: str, old: str, new: str, *, replace_all: bool) -> Edited:
    """Put `new` in place of `old`; raises FileError when that is not there, or there more than once.

    With `replace_all`, every place is changed. Without, and when `old` is nowhere, whole lines that differ only in
    white space at their ends or in a common indentation count, if there is exactly one such place.
    """
    plain_old = old.replace("\r\n", "\n")
    if replace_all and (everywhere := _everywhere(source, name, old, plain_old, new)) is not None:
        return everywhere
    lines = _Lines(source)
    starts = _occurrences(lines.plain, plain_old, is_one_wanted=not replace_all)
    if len(starts) > 1 and not replace_all:
        starts = _told_apart(lines, old, starts)
    if len(starts) > 1 and not replace_all:
        raise _ambiguous(lines, name, starts)
    notes: list[str] = []
    if starts:
        _check_growth(source, name, len(starts), len(new) - len(plain_old))
        spans = [_Span(start, start + len(plain_old), new) for start in starts]
        if any(lines.raw(span) != old for span in spans):
            notes.append(_ends_kept(source))
    else:
        span, note = _nearly(lines, name, old, plain_old, new, replace_all=replace_all)
        spans, notes = [span], [note]
    return Edited(lines.with_spans(spans, keeps_ends="\r\n" in old or "\r" in source.text), len(spans), notes)


def _everywhere(source: Text, name: str, old: str, plain_old: str, new: str) -> Edited | None:
    """Replace in one go where all lines end alike, or none is touched; None otherwise, and for nothing to replace.

    Millions of places cost neither memory nor time then.
    """
    newline = source.format.newline
    touches_ends = "\n" in plain_old or "\n" in new
    if (source.format.is_mixed and touches_ends) or "\r" in plain_old:
        return None
    there = plain_old.replace("\n", newline)
    count = source.text.count(there)
    if not count:
        return None
    if "\r\n" in old or "\r" in source.text:
        new = new.replace("\r\n", "\n").replace("\n", newline)
    _check_growth(source, name, count, len(new) - len(there))
    return Edited(source.text.replace(there, new), count, [] if there == old else [_ends_kept(source)])


def _check_growth(source: Text, name: str, count: int, growth: int) -> None:
    """Raise FileError for a text that would be too large to edit again."""
    size = len(source.text) + count * growth
    if growth > 0 and size > LARGEST_TEXT:
        raise FileError(
            "too_large",
            f"{name} would have {size:,} characters, with {count:,} replacements; up to {LARGEST_TEXT:,} can be edited "
            "as text. Nothing was changed; use a command",
        )


def _ends_kept(source: Text) -> str:
    ends = {"\n": "LF", "\r\n": "CRLF", "\r": "CR"}[source.format.newline]
    return f"The line ends of the file ({ends}) were kept; old_string has others."


class _Lines:
    """A text whose lines end with `\\n`, and the way back to the text as it is."""

    def __init__(self, source: Text) -> None:
        self._text = source.text
        self._newline = source.format.newline
        self._ends: list[int] = []
        if self._newline == "\r":
            self.plain = source.text.replace("\r", "\n")
            return
        self.plain = source.text.replace("\r\n", "\n")
        position = -1
        while (position := source.text.find("\r\n", position + 1)) >= 0:
            self._ends.append(position - len(self._ends))

    def raw(self, span: _Span) -> str:
        """Return what stands there as it is."""
        return self._text[self._back(span.start) : self._back(span.end)]

    def line_of(self, position: int) -> int:
        """Return the number of the line."""
        return self.plain.count("\n", 0, position) + 1

    def with_spans(self, spans: Sequence[_Span], *, keeps_ends: bool) -> str:
        """Return the text with the spans replaced; new lines get the line ends of the replaced ones."""
        pieces: list[str] = []
        position = 0
        for span in spans:
            start = self._back(span.start)
            new = self._ended(span.new, self.raw(span)) if keeps_ends else span.new
            pieces += [self._text[position:start], new]
            position = self._back(span.end)
        return "".join([*pieces, self._text[position:]])

    def _back(self, position: int) -> int:
        return position + bisect_left(self._ends, position)

    def _ended(self, new: str, old: str) -> str:
        both = old.count("\r\n")
        alone = old.count("\n") - both
        newline = self._newline
        if both and not alone:
            newline = "\r\n"
        elif alone and not both:
            newline = "\n"
        return new.replace("\r\n", "\n").replace("\n", newline)


def _occurrences(text: str, part: str, *, is_one_wanted: bool) -> list[int]:
    """Return where a part stands; where one place is wanted, also those that overlap, and only the first of many."""
    step = 1 if is_one_wanted else len(part)
    found: list[int] = []
    position = text.find(part)
    while position >= 0 and not (is_one_wanted and len(found) > _MOST_COUNTED):
        found.append(position)
        position = text.find(part, position + step)
    return found


def _told_apart(lines: _Lines, old: str, starts: list[int]) -> list[int]:
    """Return the one place whose line ends are those of `old` too, if the model has written any on purpose."""
    if "\r" not in old or len(starts) > _MOST_COUNTED:
        return starts
    length = len(old.replace("\r\n", "\n"))
    exact = [start for start in starts if lines.raw(_Span(start, start + length, "")) == old]
    return exact if len(exact) == 1 else starts


def _ambiguous(lines: _Lines, name: str, starts: list[int]) -> FileError:
    numbers = [str(lines.line_of(start)) for start in starts[:_MOST_NAMED]]
    more = f" and {len(starts) - _MOST_NAMED} more" if len(starts) > _MOST_NAMED else ""
    times = str(len(starts))
    if len(starts) > _MOST_COUNTED:
        times, more = f"more than {_MOST_COUNTED}", " and many more"
    return FileError(
        "not_unique",
        f"old_string is found {times} times in {name}, at lines {', '.join(numbers)}{more}. Add lines around it "
        "until it is unique, or set replace_all",
    )


def _nearly(lines: _Lines, name: str, old: str, plain_old: str, new: str, *, replace_all: bool) -> tuple[_Span, str]:
    """Return the only place that differs from `old` in nothing but white space; raise FileError when there is none."""
    wanted = plain_old.removesuffix("\n").split("\n")
    changed = new.replace("\r\n", "\n").split("\n")
    have = lines.plain.split("\n")
    matches: list[LineMatch] = []
    if not replace_all and any(line.strip() for line in wanted):
        matches = [match for match in find_lines(have, wanted) if match.fits(changed)]
    if len(matches) != 1:
        hint = ""
        if matches:
            numbers = ", ".join(str(match.first + 1) for match in matches[:_MOST_NAMED])
            hint = f" Lines that differ from it in white space only are at {numbers}: too many to choose one."
        raise FileError("not_found_in_file", f"old_string is not in {name}.{hint}\n{nearest(have, old)}")
    [match] = matches
    first, last = match.first, match.first + len(wanted)
    start = sum(len(line) + 1 for line in have[:first])
    end = start + len("\n".join(have[first:last]))
    replacement = "\n".join(match.indent(line) for line in changed)
    if plain_old.endswith("\n"):
        if end < len(lines.plain):
            end += 1
        else:
            replacement = replacement.removesuffix("\n")  # the file does not end its last line
    note = f"old_string is not in the file as given; lines {first + 1} to {last} were taken, {match.difference}."
    return _Span(start, end, replacement), note
