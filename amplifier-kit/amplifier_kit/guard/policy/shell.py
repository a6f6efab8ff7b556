"""A shell line taken apart into its commands."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

from amplifier_kit.guard.policy.hazards import hazardous_word
from amplifier_kit.guard.policy.segments import HOLE, MAX_STARTS, Redirect, Segment, loose_words
from amplifier_kit.guard.policy.wrappers import RESERVED, changes_folder, changes_shell, runs_others, unwrap

if TYPE_CHECKING:
    from tree_sitter import Language

#: Longer lines are not parsed: some take the parser quadratic time.
MAX_LENGTH = 16_384
MAX_DEPTH = 6
_MAX_COUNTS = {"<<": 8, "${": 200, "(": 300, "`": 40, "{": 400, "|": 1_000}
#: A backslash at the end of a line that is not itself escaped.
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\n")
#: The grammar takes a line that starts with a backslash for more words of the command before it.
_SLASHED = re.compile(r"\n(?=\\[^\n])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class ShellParse:
    """A reader of bash, as strict as the policy needs it: what it does not understand is opaque, never left out."""

    def segments(self, command: str) -> list[Segment]:
        """Return every command that a line may run, also those inside of others; never raises."""
        found = self._script(command, 0)
        if not found and command.strip():
            return [Segment(None, command, is_opaque=True, reason="no command was found in it")]
        return found

    def _script(self, command: str, depth: int, *, is_bash: bool = True) -> list[Segment]:
        problem = unreadable(command) or ("" if depth < MAX_DEPTH else "nested too deeply")
        if problem:
            return [Segment(None, command, is_opaque=True, reason=problem)]
        from amplifier_kit.guard.policy.syntax_tree import MAX_SEGMENTS, Walk

        joined, problem = _joined(command)
        walk = Walk(joined.encode("utf-8"), bash_language(), is_bash=is_bash)
        walk.run()
        found: list[Segment] = []
        problem = problem or walk.taint
        for segment in walk.segments:
            problem = self._take_apart(segment, depth, found) or problem
            if len(found) > MAX_SEGMENTS:
                return [Segment(None, command, is_opaque=True, reason=f"more than {MAX_SEGMENTS} commands")]
        if walk.is_foreign:
            found += _anywhere(joined)
        if _SLASHED.search(joined) and any(segment.is_opaque for segment in found):
            # Nothing allows it any more; what stands on the line is for the rules that deny.
            found += self._script(_SLASHED.sub("\n ", joined), depth + 1)
        if any(segment.words and changes_folder(segment.words[0]) for segment in found):
            found = [_moved(segment) for segment in found]
        if problem:
            found = [segment.opaque(problem) for segment in found]
            found = found or [Segment(None, command, is_opaque=True, reason=problem)]
        return found

    def _take_apart(self, segment: Segment, depth: int, found: list[Segment]) -> str:
        """Add a command and all that it runs; return why the whole line is not what it seems, if so."""
        waiting, taint = [(segment, depth)], ""
        while waiting:
            current, level = waiting.pop()
            if not current.words:
                found.append(current)
                continue
            if HOLE in current.words[0] or not current.words[0]:
                found.append(current.opaque("the program is known only when it runs")._replace(runs_rest=True))
                continue
            if current.words[0] in RESERVED:
                reason = f"`{current.words[0]}` is a word of the shell's own"
                found.append(current.opaque(reason)._replace(runs_rest=True))
                continue
            if changes_shell(current.words):
                taint = f"`{current.words[0]}` changes what other commands mean"
            if option := hazardous_word(current.words):
                current = current.opaque(f"`{option}` lets `{current.words[0]}` run or write something else")
            waiting += self._inside(current, level, found)
        return taint

    def _inside(self, current: Segment, level: int, found: list[Segment]) -> list[tuple[Segment, int]]:
        """Add a command to what was found, unless it only passes on to another; return what it runs."""
        assert current.words is not None
        wrapped = unwrap(current.words)
        if wrapped is None:
            is_runner = runs_others(current.words[0])
            found.append(current._replace(runs_rest=current.runs_rest or is_runner))
            return []
        if level >= MAX_DEPTH * 2:
            found.append(current.opaque("nested too deeply")._replace(runs_rest=True))
            return []
        if wrapped.reason:
            current = current.opaque(wrapped.reason)._replace(runs_rest=True)
        passed_on = wrapped.is_transparent and bool(wrapped.words)
        if not passed_on:
            found.append(current)
        for script in wrapped.scripts:
            inner = self._script(script, level + 1, is_bash=wrapped.is_bash)
            found += [segment._replace(joined="") for segment in inner]
        within = (*current.within, current.words or ())
        assignments = (*current.assignments, *wrapped.assignments)
        return [
            (
                current._replace(words=words, within=within, assignments=assignments)
                if passed_on
                else Segment(words, current.text, is_opaque=current.is_opaque, reason=current.reason),
                level + 1,
            )
            for words in wrapped.words
        ]


#: Kinds of characters that cannot be seen, or look like a blank.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp")


def unreadable(command: str) -> str:
    """Return why a line cannot be parsed at all, or an empty text."""
    if len(command) > MAX_LENGTH:
        return f"it is longer than {MAX_LENGTH:,} characters"
    if control := _CONTROL.search(command):
        return f"it contains the control character {control[0]!r}"
    for character in "" if command.isascii() else command:
        if not character.isascii() and unicodedata.category(character) in _UNSEEN:
            return f"it contains U+{ord(character):04X}, which cannot be seen or looks like a blank"
    for text, most in _MAX_COUNTS.items():
        if command.count(text) > most:
            return f"it contains {text!r} more than {most} times"
    return ""


def _joined(command: str) -> tuple[str, str]:
    """Join continued lines, as the shell does before it looks at words; return why not where that is uncertain."""
    if "\\\n" not in command:
        return command, ""
    if any(text in command for text in ("#", "'", "<<")):
        return command, "a line goes on where comments, quotes or here-documents may end it"
    return _CONTINUED.sub(r"\1", command), ""


def _anywhere(script: str) -> list[Segment]:
    """Return commands for the rules that deny, of a script that its shell may part otherwise: any word may be one."""
    words = loose_words(script)
    return [Segment(words[at : at + 2 * MAX_STARTS], script, runs_rest=True) for at in range(0, len(words), MAX_STARTS)]


def _moved(segment: Segment) -> Segment:
    """Return a command of a line that changes its folder: what is relative in it may be anywhere."""
    program = segment.words[0] if segment.words else ""
    if "/" in program and not program.startswith("/"):
        return segment.opaque(f"`{program}` is relative to a folder that the line changes")
    if any(redirect.target is None or not redirect.target.startswith("/") for redirect in segment.redirects):
        redirects = tuple(
            Redirect(each.kind, each.target if each.target and each.target.startswith("/") else None)
            for each in segment.redirects
        )
        return segment.opaque("a redirect is relative to a folder that the line changes")._replace(redirects=redirects)
    return segment


@cache
def bash_language() -> Language:
    """Return the grammar of bash."""
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())
