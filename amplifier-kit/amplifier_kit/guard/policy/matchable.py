"""Whether a pattern for commands can match any command, by an example of one.

Rules are held against lines in one form: words with one blank between them, and in single quotes those that contain
blanks or quotes. Patterns are written by people, who put two blanks where the line has one.
"""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from amplifier_kit.guard.policy.glob import tokens
from amplifier_kit.guard.policy.shell import unreadable
from amplifier_kit.guard.policy.whole_line import spans_commands

#: One character of each kind that the forms below tell apart.
_KINDS: Final = "x '\"\\"
_PRINTABLE: Final = "".join(map(chr, range(32, 127)))
_PLAIN, _BLANK, _SINGLE, _DOUBLE, _BACKSLASH = "p", "b", "s", "d", "k"
_KIND_OF: Final = {" ": _BLANK, "'": _SINGLE, '"': _DOUBLE, "\\": _BACKSLASH}
_QUOTED: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'")

#: The states of a form, each with the kinds of characters that lead on from it.
_Form = Mapping[str, Mapping[str, str]]

#: A line as an allowing rule sees it. A word is only quoted where it has to be, so that `'x'` never occurs; a quote
#: inside of it is written `'\''`. The first word is not empty.
_CANONICAL: Final[_Form] = {
    "start": {_PLAIN: "plain", _BACKSLASH: "plain", _SINGLE: "opened first"},
    "word": {_PLAIN: "plain", _BACKSLASH: "plain", _SINGLE: "opened"},
    "plain": {_PLAIN: "plain", _BACKSLASH: "plain", _BLANK: "word"},
    "opened first": {_PLAIN: "bare", _BACKSLASH: "bare", _BLANK: "needed", _DOUBLE: "needed", _SINGLE: "goes on"},
    "opened": {_PLAIN: "bare", _BACKSLASH: "bare", _BLANK: "needed", _DOUBLE: "needed", _SINGLE: "closed"},
    "bare": {_PLAIN: "bare", _BACKSLASH: "bare", _BLANK: "needed", _DOUBLE: "needed", _SINGLE: "goes on"},
    "needed": {_PLAIN: "needed", _BACKSLASH: "needed", _BLANK: "needed", _DOUBLE: "needed", _SINGLE: "closed"},
    "closed": {_BLANK: "word", _BACKSLASH: "escaped"},
    "goes on": {_BACKSLASH: "escaped"},
    "escaped": {_SINGLE: "escaped quote"},
    "escaped quote": {_SINGLE: "needed"},
}
#: The same words without the quotes around them, which rules that restrict see as well.
_BARE: Final[_Form] = {
    "start": {_PLAIN: "plain", _BACKSLASH: "plain"},
    "word": {_PLAIN: "plain", _BACKSLASH: "plain"},
    "plain": {_PLAIN: "plain", _BACKSLASH: "plain", _BLANK: "word"},
}
#: A whole line, as it was written but for its blanks.
_LINE: Final[_Form] = {
    state: {**leads, _SINGLE: "plain", _DOUBLE: "plain"} for state, leads in _BARE.items()
}  # fmt: skip
_ENDS: Final = frozenset({"plain", "closed"})


def example_command(pattern: str, *, is_allowing: bool) -> str | None:
    """Return a shell line that a pattern for commands matches, None when no line can.

    A rule that restricts is held against more forms of a line than one that allows. Words of odd forms, such as
    `' rm'`, count for nothing: no rule is meant for them.
    """
    patterns = [pattern[:-2], pattern] if pattern.endswith(" *") and pattern[:-2].strip() else [pattern]
    for each in patterns:
        if (line := _line_of(each, _CANONICAL)) is not None:
            return shlex.join(_words(line))
        if not is_allowing and (line := _line_of(each, _BARE)) is not None:
            return shlex.join(line.split(" "))
        if not is_allowing and spans_commands(each) and (line := _line_of(each, _LINE)) is not None:
            return line
    return None


def tidied(pattern: str) -> str:
    """Return a pattern with single blanks, and quotes as they are in the lines that it is held against."""

    def quoted(found: re.Match[str]) -> str:
        text = found[1] if found[1] is not None else found[2]
        return f"'{text}'" if not text or re.search(r"[ \"]", text) else text

    return " ".join(_QUOTED.sub(quoted, pattern).split())


def _line_of(pattern: str, form: _Form) -> str | None:
    """Return the shortest text of a form that a pattern matches: a search over both at once."""
    wanted = tokens(pattern)
    begin = (0, "start")
    texts = {begin: ""}
    waiting = deque([begin])
    while waiting:
        at, state = here = waiting.popleft()
        if at == len(wanted):
            if state in _ENDS:
                return texts[here]
            continue
        one = wanted[at]
        if one is None and (at + 1, state) not in texts:  # nothing for the star
            texts[at + 1, state] = texts[here]
            waiting.appendleft((at + 1, state))
        for character in _KINDS if one is None else _characters(one):
            following = form[state].get(_KIND_OF.get(character, _PLAIN))
            there = (at + (one is not None), following or "")
            if following is not None and there not in texts:
                texts[there] = texts[here] + character
                waiting.append(there)
    return None


@lru_cache(maxsize=1024)
def _characters(one: re.Pattern[str]) -> str:
    """Return characters that a single one of a pattern may be, of those that a command can contain."""
    found = _PRINTABLE + "".join(sorted(set(one.pattern) - set(_PRINTABLE)))
    matching = [character for character in found if one.match(character) and not unreadable(character)]
    return "".join({_KIND_OF.get(character, _PLAIN): character for character in reversed(matching)}.values())


def _words(line: str) -> Iterator[str]:
    """Yield the words of a line in the form of an allowing rule."""
    for found in re.finditer(r"('(?:[^']|'\\'')*')(?= |\Z)|([^ ]+)", line):
        yield found[1][1:-1].replace("'\\''", "'") if found[1] is not None else found[2]
