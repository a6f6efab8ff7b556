"""The commands of a shell line, as far as they are known before it runs, and the line as a whole."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal

from amplifier_kit.guard.invisible_characters import INVISIBLE
from amplifier_kit.named_tuple import NamedTuple

#: Replaces text in a word that is known only when the line runs. No command can contain it: it would end there.
HOLE: Final = "\0"
#: How many words of a command that runs another one are tried as its program.
MAX_STARTS: Final = 24
#: Longer lines are not parsed: some take the parser quadratic time.
MAX_LENGTH: Final = 16_384
#: Characters of a word or script in a message.
_MAX_SHOWN: Final = 40
_MAX_COUNTS: Final = {"<<": 8, "${": 200, "(": 300, "`": 40, "{": 400, "|": 1_000}
#: Keywords of the shell. Where one seems to be a program, the grammar has read something else than the shell will.
RESERVED: Final = frozenset({
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function",
    "in", "{", "}",
})  # fmt: skip
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
#: Lines that have one spelling only: a plain name in lower case, and words without quotes.
_SAME: Final = re.compile(r"[a-z0-9_.+-]+(?! -)( [^ \t\n'\"]+)*")
_SEPARATORS: Final = re.compile(r"[\s;&|()`]+")
#: Operators between commands, and where the shell itself opens a file.
_OPERATOR: Final = re.compile(r"\s*(\|&|\|\||&&|&>>|&>|>>|>&|>\||<<<|<<|<&|[|&;<>])\s*")
_SPANS: Final = re.compile(r"[|&;<>`]|\$\(")


class Redirect(NamedTuple):
    """A file that the shell itself opens for a command; `target` is None when its name is known only at run time."""

    kind: Literal["read", "write"]
    target: str | None


class Segment(NamedTuple):
    """One simple command: its words after quoting, or None when they are not known.

    `text` is the source as a person wrote it. `assignments` are the variables set for this command alone. With
    `is_opaque`, the words may be incomplete or not what runs: `reason` says why, and no rule that names a command
    allows it. With `runs_rest`, any later word may be the name of a program that is run. `within` are the commands
    around it that only pass on to it, as `timeout 5`: rules that restrict may mean those. `elsewhere` is why it would
    follow another repository than the project's: no rule that names a command allows it then.
    `joined` is how it follows the command before it in the same shell: `;` at the beginning of a list, `&&` if that
    one has to succeed, and empty if it is not known, or if it runs in a subshell.
    """

    words: tuple[str, ...] | None
    text: str
    redirects: tuple[Redirect, ...] = ()
    is_opaque: bool = False
    reason: str = ""
    assignments: tuple[str, ...] = ()
    runs_rest: bool = False
    within: tuple[tuple[str, ...], ...] = ()
    elsewhere: str = ""
    joined: Literal["", ";", "&&"] = ""

    def opaque(self, reason: str) -> Segment:
        """Return this segment as one that is not understood; the first reason stays."""
        return self if self.is_opaque else self._replace(is_opaque=True, reason=reason)

    @property
    def problem(self) -> str:
        """Why no rule that names a command allows it; empty when one may."""
        return self.reason if self.is_opaque else self.elsewhere

    @property
    def program(self) -> str:
        """The first word, or an empty text."""
        return self.words[0] if self.words else ""

    @property
    def line(self) -> str:
        """The words as one line, in the form that an allowing rule is matched with.

        A word that contains blanks or quotes, or is empty, is in single quotes: words cannot be mistaken for others.
        """
        return " ".join([_quoted(word) for word in (*self.assignments, *(self.words or ()))])

    @property
    def prefix(self) -> str:
        """The certain beginning of the line."""
        return "" if self.is_opaque or (self.runs_rest and HOLE in self.line) else self.line.split(HOLE, 1)[0]

    @property
    def has_holes(self) -> bool:
        """Whether part of it is known only when it runs."""
        return self.is_opaque or HOLE in self.line

    def spellings(self) -> tuple[str, ...]:
        """Return every line that a denying or asking rule is matched with: all that its author may have meant."""
        if not self.words:
            return (self.line,) if self.assignments else ()
        lines = [self.line]
        lines += [line for around in self.within for line in Segment(around, self.text).spellings()]
        if len(lines) == 1 and not self.runs_rest and not self.assignments and _SAME.fullmatch(lines[0]):
            return (lines[0],)
        starts = range(min(len(self.words), MAX_STARTS)) if self.runs_rest else range(1)
        for start in starts:
            program, *rest = self.words[start:]
            base = program.rpartition("/")[2]
            for name in {program, base, base.casefold()}:
                for words in (rest, *_without_options(base.casefold(), rest)):
                    lines.append(" ".join([name, *words]))
                    lines.append(" ".join([name, *map(_quoted, words)]))
        return tuple(dict.fromkeys(lines))


def loose_words(text: str) -> tuple[str, ...]:
    """Return the possible words of a text whose grammar is unknown: rules that deny look at each as a program."""
    return tuple(_SEPARATORS.split(text.strip()))


def _without_options(program: str, words: list[str]) -> list[list[str]]:
    """Return the possible commands of a program with options before them, as in `git --no-pager push`.

    The word after an unknown option may be its value.
    """
    from amplifier_kit.guard.policy.programs import program_row

    row = program_row(program)
    # Which options have a value is known only of programs with options before a command.
    valued = row.valued_options if row is not None and row.global_options else None
    found: list[list[str]] = []
    may_be_value = False
    for index, word in enumerate(words[:MAX_STARTS]):
        if word.startswith("-"):
            is_plain = "=" not in word and word != "--"
            may_be_value = is_plain and (valued is None or word in valued)
        elif not index:
            return []
        elif not may_be_value:
            return [*found, words[index:]]
        else:
            may_be_value = False
            if valued is None:
                found.append(words[index:])
    return found


def _quoted(word: str) -> str:
    if word and not any(character in word for character in " \t\n'\""):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def unreadable(line: str) -> str:
    """Return why a line cannot be parsed at all, or an empty text."""
    if len(line) > MAX_LENGTH:
        return f"it is longer than {MAX_LENGTH:,} characters"
    if control := _CONTROL.search(line):
        return f"it contains the control character {control[0]!r}"
    for character in "" if line.isascii() else line:
        if not character.isascii() and unicodedata.category(character) in INVISIBLE:
            return f"it contains U+{ord(character):04X}, which is invisible or looks like a blank"
    for text, most in _MAX_COUNTS.items():
        if line.count(text) > most:
            return f"it contains {text!r} more than {most} times"
    return ""


def spans_commands(text: str) -> bool:
    """Return whether a line, or the pattern of a rule, is more than one command without redirects."""
    return _SPANS.search(text) is not None


def line_forms(line: str) -> tuple[str, ...]:
    """Return a line in the forms that a rule about it may be written in: blanks around operators, or none, or as is."""
    plain = " ".join(line.split())
    return tuple(dict.fromkeys((plain, _OPERATOR.sub(r" \1 ", plain).strip(), _OPERATOR.sub(r"\1", plain))))


def shortened(text: str) -> str:
    """Return a text for a message, never empty. Redaction recognises the beginning of a secret by the mark of a cut."""
    text = text.replace(HOLE, "…")
    return f"{text[:_MAX_SHOWN]}…" if len(text) > _MAX_SHOWN else text or "''"
