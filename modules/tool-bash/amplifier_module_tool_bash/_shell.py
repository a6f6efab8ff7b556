"""Take a shell command apart into the simple commands in it, wherever they stand.

This serves the safety profiles, which keep from accidents; what is permitted is for the session's policy to decide. It
understands quotes, lists, pipelines, subshells, substitutions, here-documents and redirections, not the whole of bash.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

_SPACES: Final = " \t\r"
_ENDS: Final = ";&|\n()"
#: Deeper nesting is nothing that anybody writes.
_DEEPEST: Final = 40


class TooDeep(Exception):
    """A command is nested deeper than it can be looked at."""


@dataclass
class Simple:
    """One command: its words without quotes, and the files it writes to by redirection."""

    words: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    #: Texts that it gets as input from here-documents.
    documents: list[str] = field(default_factory=list)


class _Document(NamedTuple):
    """A here-document whose text comes after the line."""

    delimiter: str
    is_indented: bool
    is_quoted: bool
    command: Simple


def simple_commands(text: str) -> list[Simple]:
    """Return the simple commands of a text, those inside substitutions too; raise TooDeep.

    What is not closed is taken as if it were closed at the end.
    """
    found: list[Simple] = []
    _Scan(text, found, 0).run("")
    return found


class _Scan:
    """Go through a text once, from left to right."""

    def __init__(self, text: str, found: list[Simple], depth: int) -> None:
        if depth > _DEEPEST:
            raise TooDeep
        self._text = text
        self._found = found
        self._depth = depth
        self._at = 0
        self._command = Simple()
        self._announced: list[_Document] = []

    def run(self, closer: str) -> int:
        """Read up to the closer, or the end; return where it goes on after that."""
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            if char == closer:
                self._at += 1
                break
            if char in _SPACES or text.startswith("\\\n", self._at):
                self._at += 2 if char == "\\" else 1
            elif char == "#":
                self._skip_comment()
            elif char in "<>" or text.startswith("&>", self._at):
                self._redirect()
            elif char == "(":
                self._finish()
                self._at += 1
                self._nest(")")
            elif char in _ENDS:
                self._finish()
                self._at += 1
                if char == "\n":
                    self._read_documents()
            else:
                self._take_word()
        self._finish()
        return self._at

    def _take_word(self) -> None:
        start = self._at
        word = self._word()
        is_number = self._text[start : self._at].isdigit() and self._at < len(self._text)
        if not (is_number and self._text[self._at] in "<>"):
            self._command.words.append(word)

    def _finish(self) -> None:
        if self._command.words or self._command.targets:
            self._found.append(self._command)
        self._command = Simple()

    def _skip_comment(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _nest(self, closer: str) -> None:
        """Read what stands in brackets as commands of their own."""
        inner = _Scan(self._text, self._found, self._depth + 1)
        inner._at = self._at
        self._at = inner.run(closer)

    def _nest_text(self, text: str) -> None:
        _Scan(text, self._found, self._depth + 1).run("")

    def _word(self) -> str:
        """Read one word, quotes taken off; substitutions in it are read as commands."""
        parts: list[str] = []
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            if char in _SPACES or char in _ENDS or char in "<>":
                break
            if char == "'":
                parts.append(self._single())
            elif char == '"':
                self._at += 1
                parts.append(self._double())
            elif text.startswith("$'", self._at):
                self._at += 1
                parts.append(_decoded(self._single(is_escaped=True)))
            else:
                parts.append(self._piece())
        return "".join(parts)

    def _piece(self) -> str:
        """Read one character, or what a backslash, `$(` or a backtick begins."""
        char = self._text[self._at]
        if char == "\\":
            self._at += 2
            return self._text[self._at - 1 : self._at].replace("\n", "")
        if self._text.startswith("$(", self._at):
            self._at += 2
            self._nest(")")
            return "$()"
        if char == "`":
            end = self._text.find("`", self._at + 1)
            end = len(self._text) if end < 0 else end
            self._nest_text(self._text[self._at + 1 : end])
            self._at = end + 1
            return "$()"
        self._at += 1
        return char

    def _single(self, *, is_escaped: bool = False) -> str:
        start = self._at = self._at + 1
        while self._at < len(self._text) and self._text[self._at] != "'":
            self._at += 2 if is_escaped and self._text[self._at] == "\\" else 1
        self._at += 1
        return self._text[start : self._at - 1]

    def _double(self) -> str:
        parts: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == '"':
                self._at += 1
                break
            if char == "\\" and self._text[self._at + 1 : self._at + 2] not in ("$", "`", '"', "\\", "\n"):
                self._at += 1
                parts.append(char)
            else:
                parts.append(self._piece())
        return "".join(parts)

    def _redirect(self) -> None:
        text = self._text
        start = self._at
        while self._at < len(text) and text[self._at] in "<>&|-" and self._at - start < 4:
            if text[self._at] == "-" and text[start : self._at] != "<<":
                break
            self._at += 1
        operator = text[start : self._at]
        if text.startswith("(", self._at):
            self._at += 1
            self._nest(")")
            return
        while self._at < len(text) and text[self._at] in _SPACES:
            self._at += 1
        begin = self._at
        word = self._word()
        if operator in ("<<", "<<-"):
            is_quoted = any(char in text[begin : self._at] for char in "'\"\\")
            self._announced.append(_Document(word, operator == "<<-", is_quoted, self._command))
        elif ">" in operator:
            self._command.targets.append(word)

    def _read_documents(self) -> None:
        """Read the here-documents that the line just ended has announced."""
        announced, self._announced = self._announced, []
        for document in announced:
            lines: list[str] = []
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = end + 1
                if (line.lstrip("\t") if document.is_indented else line) == document.delimiter:
                    break
                lines.append(line)
            body = "\n".join(lines)
            document.command.documents.append(body)
            if not document.is_quoted:
                self._read_expansions(body)

    def _read_expansions(self, body: str) -> None:
        """Read the substitutions of a text that is otherwise no command."""
        inner = _Scan(body, self._found, self._depth + 1)
        while inner._at < len(body):
            inner._piece()


def _decoded(text: str) -> str:
    """Return what `$'...'` stands for, as far as Python knows the same escapes."""
    import warnings

    with warnings.catch_warnings():
        # For escapes that it does not know, which it leaves as they are, as bash does.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return text.encode("latin-1", "backslashreplace").decode("unicode_escape")
        except UnicodeDecodeError:
            return text
