"""The simple commands of a shell line, with their words as they are written but for the quotes.

For checks that prevent accidents, as those of tool-bash: they look for `rm -rf $HOME` and need the variable's name, and
they look at lines of any length. Permission is decided by the rules, over the segments of `shell.py`, in which such a
word is unknown, and a long line too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from amplifier_kit.guard.policy.programs import program_row
from amplifier_kit.guard.policy.segments import HOLE, RESERVED
from amplifier_kit.guard.policy.shell import parse_tree
from amplifier_kit.guard.policy.words import (
    WORDS,
    UnknownWordError,
    heredoc_words,
    last_command,
    late_words,
    source_text,
    word_text,
)
from amplifier_kit.guard.policy.wrappers import ASSIGNMENT, Wrapped, unwrap

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DEPTH: Final = 40
#: More of these may take the parser quadratic time: here-documents without an end, expansions in expansions.
_MAX_COUNT: Final = 4_000
#: Scripts in scripts, and commands that pass on to a command: more are nothing that anybody writes.
_MAX_SCRIPTS: Final = 10
_MAX_WRAPPERS: Final = 20
_SHELLS: Final = ("shell", "posix shell", "other shell")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_NESTING: Final = frozenset({"command_substitution", "process_substitution", "subshell"})
_WORDS: Final = WORDS | {"command_name", "number", "variable_assignment", "command_substitution", "test_operator"}
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r"\\([$`\"\\\n])")


class TooDeepError(Exception):
    """A line is nested too deeply to be checked."""


@dataclass
class SimpleCommand:
    """One command: its words, the files that it writes by redirects, and the here-documents that it reads."""

    words: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)


def simple_commands(text: str) -> list[SimpleCommand]:
    """Return the simple commands of a text, with those inside of substitutions and functions.

    Where the text is not valid, the words of the invalid parts count as commands as well.

    Raises:
        TooDeepError: When it is nested more than 40 times, or has thousands of here-documents or expansions.
    """
    if max(text.count("<<"), text.count("${")) > _MAX_COUNT:
        raise TooDeepError
    # A NUL never reaches a program, and the grammar would end there; a carriage return is a blank to people.
    source = text.replace("\0", " ").replace("\r", " ").encode("utf-8", "replace")
    found: list[SimpleCommand] = []
    # Redirects and words of a statement belong to its last command, which comes after it on the walk.
    late_parts: dict[int, SimpleCommand] = {}
    waiting = [(parse_tree(source), 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise TooDeepError
        match node.type:
            case "redirected_statement":
                late = _of_redirects(node, source)
                last = last_command(node)
                if last is None:
                    found.append(late)
                else:
                    late_parts[last.start_byte] = late
            case "command":
                command = _of_redirects(node, source)
                late = late_parts.pop(node.start_byte, SimpleCommand())
                own = [_text(child, source) for child in node.children if child.type in _WORDS]
                command.words = [*own, *command.words, *late.words]
                command.targets += late.targets
                command.documents += late.documents
                found.append(command)
            case "ERROR":
                found += _invalid(node, source)
        inner = depth + (node.type in _NESTING)
        waiting += [(child, inner) for child in reversed(node.children)]
    return found


def _of_redirects(node: Node, source: bytes) -> SimpleCommand:
    """Return the redirects of a command or statement: files that are written, here-documents, words after them."""
    command = SimpleCommand()
    redirects = [child for child in node.children if child.type in ("file_redirect", "heredoc_redirect")]
    redirects += [below for child in redirects for below in child.children if below.type == "file_redirect"]
    for child in redirects:
        if child.type == "heredoc_redirect":
            command.words += [_text(word, source) for word in heredoc_words(child)]
            command.documents += [source_text(body, source) for body in child.children if body.type == "heredoc_body"]
        else:
            late = late_words(child)
            command.words += [_text(word, source) for word in late]
            if ">" in source_text(child, source).partition("(")[0]:
                places = [each for each in child.children if each.type in _WORDS and each not in late]
                command.targets += [_text(place, source) for place in places]
    return command


def _invalid(node: Node, source: bytes) -> Iterator[SimpleCommand]:
    """Yield the runs of words in an invalid part, and the command before it with its here-document."""
    command = SimpleCommand()
    before = node.prev_sibling
    for child in node.children:
        if child.type in _WORDS:
            command.words.append(_text(child, source))
        elif command.words:
            yield command
            command = SimpleCommand()
        if child.type == "heredoc_start" and before is not None:
            words = [_text(word, source) for word in before.children if word.type in _WORDS]
            yield SimpleCommand(words, documents=[_document(child, source)])
    if command.words:
        yield command


def _document(start: Node, source: bytes) -> str:
    """Return the text of a here-document that the grammar did not read to its end."""
    mark = re.escape(source_text(start, source).strip("'\"\\"))
    text = source[start.end_byte :].decode("utf-8", "replace").partition("\n")[2]
    return re.split(rf"^\t*{mark}$", text, maxsplit=1, flags=re.MULTILINE)[0]


def _text(node: Node, source: bytes) -> str:
    """Return a word without its quotes: expansions and wildcards as they are written, substitutions as `$()`."""
    written = source_text(node, source)
    match node.type:
        case "concatenation" | "command_name":
            return "".join(_text(child, source) for child in node.children) or written
        case "raw_string":
            return written[1:-1]
        case "string":
            return _ESCAPED_IN_QUOTES.sub(_unescape, _without_substitutions(node, source)[1:-1])
        case "ansi_c_string":
            try:
                return word_text(node, source)
            except UnknownWordError:
                return written[2:-1]
        case "command_substitution" | "process_substitution":
            return "$()"
        case _:
            return _ESCAPED.sub(_unescape, written)


def _without_substitutions(node: Node, source: bytes) -> str:
    pieces: list[bytes] = []
    at = node.start_byte
    for child in node.children:
        if child.type == "command_substitution":
            pieces += [source[at : child.start_byte], b"$()"]
            at = child.end_byte
    return b"".join([*pieces, source[at : node.end_byte]]).decode("utf-8", "replace")


def _unescape(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]


# --- commands in commands ---


def run_commands(commands: Iterable[SimpleCommand], depth: int = 0) -> Iterator[tuple[SimpleCommand, list[str]]]:
    """Yield each command with its words from the program on, and with those of every command that it runs.

    Raises:
        TooDeepError: When scripts are nested more than 10 times, or more than 20 commands pass on to each other.
    """
    if depth > _MAX_SCRIPTS:
        raise TooDeepError
    for command in commands:
        waiting = [(command.words, 0)]
        while waiting:
            words, level = waiting.pop()
            if level > _MAX_WRAPPERS:
                raise TooDeepError
            words = _from_program(words)
            yield command, words
            inner, scripts = _inside(command, words)
            waiting += [(each, level + 1) for each in inner]
            for script in scripts:
                yield from run_commands(simple_commands(script), depth + 1)


def _inside(command: SimpleCommand, words: list[str]) -> tuple[list[list[str]], list[str]]:
    """Return the commands that a command runs, as words and as scripts."""
    row = program_row(words[0].rpartition("/")[2].casefold()) if words else None
    if row is None:
        return [], []
    wrapped = unwrap(tuple(words)) or Wrapped()
    inner = dict.fromkeys(tuple(word for word in each if word != HOLE) for each in wrapped.words)
    scripts = list(wrapped.scripts)
    if row.runs in _SHELLS:
        scripts += command.documents
        if wrapped.reason and not scripts:  # with options that are not known, any word may be the script
            scripts += [word for word in words[1:] if not word.startswith("-")]
    elif row.runs == "words" or (wrapped.reason and not inner and not scripts):
        inner[_after_options(words)] = None
    return [list(each) for each in inner], scripts


def _after_options(words: list[str]) -> tuple[str, ...]:
    """Return the words after the options of a program, and after assignments and numbers, which may be their values."""
    start = 1
    while start < len(words) and (
        words[start].startswith("-") or ASSIGNMENT.match(words[start]) or _NUMBER.fullmatch(words[start])
    ):
        start += 1
    return tuple(words[start:])


def _from_program(words: list[str]) -> list[str]:
    """Leave out assignments before the program, and keywords, which are words where a line is not valid."""
    start = 0
    while start < len(words) and (words[start] in RESERVED or ASSIGNMENT.match(words[start])):
        start += 1
    return words[start:]
