"""Find @mentions in a text: names of files whose content is added to it.

A mention is `@` and then letters, digits and `_ : . / ~ -`, as in `@AGENTS.md`, `@docs/`, `@~/notes.md`, `@ns:path`.

- Code has no mentions: fenced blocks (at any indentation, so also in lists) and inline code.
- An `@` inside a word is not a mention: `bob@example.com`, `pkg@1.2`, `https://host/@name`, `@@x`. `\\@x` escapes it.
  Letters of scripts without upper and lower case do not count as a word before it: these are written without spaces.
- A full stop or colon at the end belongs to the sentence, not to the mention.
- Letters and digits of all scripts are part of a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from amplifier_kit.struct import FrozenStruct

__all__ = ["Mention", "find_mentions"]

_MENTION: Final = r"@[\w:./~-]+"
#: A name has at least one of these.
_NAMING: Final = r"[\w~/]"
_BEFORE: Final = frozenset("0123456789_.+-/\\@%")
_FENCE: Final = r"(?s)[ \t>]*(?P<marks>`{3,}|~{3,})(?P<rest>.*)"
_TICKS: Final = "`+"
_BLANK_LINE: Final = r"\n[ \t\r]*\n"


class Mention(FrozenStruct):
    """One mention, with its `@`, and its position in the text."""

    text: str
    start: int
    end: int


def find_mentions(text: str) -> list[Mention]:
    """Return the mentions of `text` in order, including repeated ones; the time is linear in the length of the text."""
    if "@" not in text:
        return []
    mentions = []
    for start, end in _prose(text):
        for match in re.compile(_MENTION).finditer(text, start, end):
            name = match.group().rstrip(".:")
            if re.search(_NAMING, name) and not _is_in_word(text, match.start()):
                mentions.append(Mention(name, match.start(), match.start() + len(name)))
    return mentions


def _is_in_word(text: str, at: int) -> bool:
    before = text[at - 1] if at else " "
    return before in _BEFORE or before.lower() != before.upper()


def _prose(text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of `text` that are not code."""
    for start, end in _outside_fences(text):
        for first, last in _paragraphs(text, start, end):
            yield from _outside_ticks(text, first, last)


def _outside_fences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts between fenced blocks; a block that is not closed continues to the end, as in Markdown."""
    opened = ""
    start = at = 0
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        match = re.compile(_FENCE).match(text, at, end)
        marks, rest = (match["marks"], match["rest"].strip()) if match else ("", "")
        if not opened and marks and not (marks[0] == "`" and "`" in rest):
            yield start, at
            opened = marks
        elif opened and marks.startswith(opened) and not rest:
            opened, start = "", end
        at = end
    if not opened:
        yield start, len(text)


def _paragraphs(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the paragraphs: inline code does not reach beyond one."""
    for match in re.compile(_BLANK_LINE).finditer(text, start, end):
        yield start, match.end()
        start = match.end()
    yield start, end


def _outside_ticks(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts between inline code, which ends with as many backticks as it starts with."""
    runs = [(match.start(), match.end()) for match in re.compile(_TICKS).finditer(text, start, end)]
    last = {stop - first: index for index, (first, stop) in enumerate(runs)}
    index = 0
    while index < len(runs):
        first, stop = runs[index]
        length = stop - first - _is_escaped(text, first)
        closing = index
        if last.get(length, -1) > index and length:
            closing = next(at for at in range(index + 1, len(runs)) if runs[at][1] - runs[at][0] == length)
            yield start, stop - length
            start = runs[closing][1]
        index = closing + 1
    yield start, end


def _is_escaped(text: str, at: int) -> bool:
    """Return whether there is an odd number of backslashes before `at`."""
    before = at
    while before and text[before - 1] == "\\":
        before -= 1
    return (at - before) % 2 == 1
