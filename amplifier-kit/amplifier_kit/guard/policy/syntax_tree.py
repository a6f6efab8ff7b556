"""The walk over a parsed shell line that finds its commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from amplifier_kit.guard.policy.programs import folder_builtins, is_hazardous_variable
from amplifier_kit.guard.policy.redirects import (
    ANY_FILE,
    descriptor_ends,
    heredoc_problem,
    is_of_bash,
    late_words,
    opened,
    words_of_mark,
)
from amplifier_kit.guard.policy.segments import HOLE, Redirect, Segment, loose_words
from amplifier_kit.guard.policy.words import WORDS, UnknownWordError, gap_problem, shell_words, source_text, word_text
from amplifier_kit.guard.policy.wrappers import ASSIGNMENT, PLAIN_NAME

if TYPE_CHECKING:
    from tree_sitter import Language, Node


def _kinds(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STRUCTURES = _kinds(
    "program list pipeline subshell compound_statement if_statement elif_clause else_clause while_statement "
    "for_statement do_group case_statement case_item negated_command command_substitution process_substitution"
)
#: Parts of words: they are judged where the word is used, here only the commands inside of them are looked for.
_PARTS = _kinds(
    "word string raw_string ansi_c_string concatenation simple_expansion expansion arithmetic_expansion number array "
    "string_content variable_name special_variable_name command_name brace_expression herestring_redirect "
    "binary_expression unary_expression parenthesized_expression test_operator regex subscript extglob_pattern "
    "heredoc_body heredoc_content heredoc_start heredoc_end file_descriptor ternary_expression postfix_expression "
    "translated_string"
)
#: Parts that never have parts themselves.
_ENDS = _kinds("word raw_string number variable_name string_content test_operator file_descriptor")
#: Their text is more than their children: it is taken from the source.
_LOOSE = _kinds("string heredoc_body heredoc_redirect expansion arithmetic_expansion test_command regex ERROR")
#: A test without anything that the shell would fill in, open or write.
_PLAIN_TEST = re.compile(r"\[ [\w \t./=!-]* \]|\[\[ [\w\s./=!&|-]* \]\]", re.ASCII)
#: What ends a command, and with it a test between single brackets, which is one: the grammar reads on.
_PARTS_COMMANDS = re.compile(r"[\n;&|]")
_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
#: What `[[` compares as numbers: it calculates them, and to calculate a name may run what is in the variable.
_COMPARES_NUMBERS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
#: Also one of an array, whose subscript may be anything.
_NAMED_DESCRIPTOR = re.compile(rb"(?<!\$)\{\w+(\[[^\n]*?\])?\}[<>]")
#: What other shells read as something else, or part where bash does not.
_BASH_ONLY = _kinds(
    "[[ (( &> &>> |& ;& ;;& <<< += select function ansi_c_string translated_string process_substitution array "
    "subscript c_style_for_statement extglob_pattern"
)
MAX_SEGMENTS = 500
_TOKENS = _kinds(
    "; & && || | |& ( ) { } $( ` <( >( ;; ;& ;;& if then fi elif else while until do done for select in case esac ! "
    "' \" [ ] [[ ]] function"
) | {"\n"}


class Walk:
    """One pass over the tree of a line; afterwards `segments` and, if the line is not what it seems, `taint`.

    With `is_bash` false another shell reads the line: up to the first thing that only bash knows, it reads the same.
    `is_foreign` tells that there is such a thing.
    """

    def __init__(self, source: bytes, language: Language, *, is_bash: bool = True) -> None:
        from tree_sitter import Parser

        self.source = source
        self.root = Parser(language).parse(source).root_node
        self.segments: list[Segment] = []
        self.is_foreign = False
        self._foreign = frozenset[str]() if is_bash else _BASH_ONLY
        self._above = ""
        self.taint = "it cannot be parsed" if self.root.has_error else ""
        # The grammar leaves out a backslash before the first blank, with which the name of the program starts.
        if source[: self.root.start_byte].strip(b" \t\n"):
            self.taint = self.taint or "what it starts with is not understood"
        if _NAMED_DESCRIPTOR.search(source):
            self.taint = self.taint or "a redirect sets a variable"
        # Words after a redirect belong to the command before it, though the grammar hangs them on the redirect.
        self._late: dict[int, list[Node]] = {}
        # Where redirects start: a number that ends there is no word.
        self._opened: set[int] = set()
        self._has_moves = any(name.encode() in source for name in folder_builtins())
        self._has_redirects = b"<" in source or b">" in source

    def run(self) -> None:
        """Visit every node, without recursion: lines can nest as deeply as they like."""
        waiting = [(self.root, "")]
        while waiting and len(self.segments) <= MAX_SEGMENTS:
            node, self._above = waiting.pop()
            kind = node.type
            # Ends of the tree that say nothing by themselves are passed over here: they are most of it.
            waiting += [(child, kind) for child in reversed(self._visit(node)) if child.type not in _ENDS]
        if waiting:
            self.segments = []
            self.taint = f"more than {MAX_SEGMENTS} commands"

    def _visit(self, node: Node) -> list[Node]:
        """Take note of one node and return those below it that are still to be seen."""
        kind = node.type
        if kind in self._foreign:
            self._only_bash(kind)
        if kind not in _LOOSE and not self._is_whole(node):
            self.taint = self.taint or "a part of it that is not understood"
        if kind in _STRUCTURES:
            return self._structure(node)
        visit = getattr(self, f"_on_{kind}", None) if node.is_named else None
        if visit is not None:
            visit(node)
        elif kind not in _PARTS and (node.is_named or kind not in _TOKENS) and not self._is_part_of_word(node):
            self._not_understood(node)
        return node.children

    def _is_whole(self, node: Node) -> bool:
        """Return whether a node is made of its children and blanks alone."""
        at, children = node.start_byte, node.children
        if not children:
            return True
        for child in children:
            start = child.start_byte
            if start - at > 1 and self.source[at:start].strip(b" \t\n"):
                return False
            if start - at == 1 and self.source[at] not in b" \t\n":
                return False
            at = child.end_byte
        return not self.source[at : node.end_byte].strip(b" \t\n")

    def _is_part_of_word(self, node: Node) -> bool:
        return not node.is_named and self._above not in _STRUCTURES

    def _structure(self, node: Node) -> list[Node]:
        first = node.children[0].type if node.children else ""
        if first == "((" or (first == "`" and b"\\" in self.source[node.start_byte : node.end_byte]):
            self._not_understood(node)
        for child in node.children:
            if child.type in WORDS:
                self._loose_word(child)
            elif node.type == "for_statement" and child.type == "variable_name":
                self._assigned(source_text(child, self.source))
        return node.children

    def _loose_word(self, node: Node) -> None:
        try:
            word_text(node, self.source)
        except UnknownWordError as error:
            self._add(None, node, reason=str(error))

    def _add(
        self,
        words: tuple[str, ...] | None,
        node: Node,
        *,
        redirects: tuple[Redirect, ...] = (),
        reason: str = "",
        assignments: tuple[str, ...] = (),
        runs_rest: bool = False,
    ) -> None:
        text = source_text(node, self.source)
        joined = _joined(node) if self._has_moves and node.type == "command" else ""
        self.segments.append(
            Segment(words, text, redirects, bool(reason), reason, assignments, runs_rest, joined=joined)
        )

    def _not_understood(self, node: Node) -> None:
        text = source_text(node, self.source)
        redirects = ANY_FILE if "<" in text or ">" in text else ()
        reason = f"{text[:40]!r} is not understood"
        self._add(loose_words(text), node, redirects=redirects, reason=reason, runs_rest=True)

    def _only_bash(self, what: str) -> None:
        self.is_foreign = True
        self.taint = self.taint or f"only bash knows {what!r}"

    def _assigned(self, name: str) -> None:
        if not PLAIN_NAME.fullmatch(name):
            self.taint = self.taint or f"it sets the variable {name}"

    # --- commands ---

    def _on_command(self, node: Node) -> None:
        words: list[str] = []
        assignments: list[str] = []
        redirects: list[Redirect] = []
        reason = gap_problem(node.children, self.source)
        if self._has_redirects:
            self._opened.update(descriptor_ends(node))
        for child in [*node.children, *self._late.get(node.start_byte, ())]:
            if self._opened and self._is_descriptor(child):
                continue
            try:
                match child.type:
                    case "variable_assignment" if not words:
                        assignments.append(word_text(child, self.source))
                    case "file_redirect":
                        files, problem = self._opened_by(child)
                        redirects += files
                        reason = reason or problem
                        words += [word for late in late_words(child) for word in shell_words(late, self.source)]
                    case "herestring_redirect":
                        word_text(child.children[-1], self.source)
                    # The grammar knows most variables, and takes `_=1` for a program.
                    case _ if not words and ASSIGNMENT.match(source_text(child, self.source)):
                        assignments.append(word_text(child, self.source))
                    case _:
                        words += shell_words(child, self.source)
            except UnknownWordError as error:
                reason = reason or f"{error} is not understood"
                words.append(HOLE)
        for assignment in assignments:
            name = re.split(r"\+?=", assignment, maxsplit=1)[0]
            if is_hazardous_variable(name):
                reason = reason or f"{name} decides what runs"
        if words or assignments or redirects or reason:  # else a descriptor is closed, and nothing is run
            self._add(tuple(words), node, redirects=tuple(redirects), reason=reason, assignments=tuple(assignments))

    def _is_descriptor(self, node: Node) -> bool:
        """Return whether a word is the number of the redirect that it touches: the grammar takes 0 for a word."""
        return node.end_byte in self._opened and self.source[node.start_byte : node.end_byte].isdigit()

    def _on_variable_assignment(self, node: Node) -> None:
        if self._above in ("command", "declaration_command"):
            return
        name = source_text(node.children[0], self.source)
        try:
            text = word_text(node, self.source)
        except UnknownWordError as error:
            self._add((), node, reason=str(error), assignments=(source_text(node, self.source),))
            self.taint = self.taint or f"{error} is not understood"
            return
        self._assigned(name)
        if not PLAIN_NAME.fullmatch(name):
            self._add((), node, assignments=(text,))

    def _on_variable_assignments(self, node: Node) -> None:
        """Its children are visited one by one."""

    def _on_declaration_command(self, node: Node) -> None:
        words = tuple(source_text(child, self.source) for child in node.children)
        self._add(words, node)
        self.taint = self.taint or f"`{words[0]}` changes what other commands mean"

    _on_unset_command = _on_declaration_command

    def _on_test_command(self, node: Node) -> None:
        text = source_text(node, self.source)
        is_plain = _PLAIN_TEST.fullmatch(text) and not re.search(r"(^|\s)-[vR]\b", text) and not _calculates(text)
        reason = "" if is_plain else "a test that is not plain"
        is_command = not text.startswith("[[")
        runs_rest = is_command and _PARTS_COMMANDS.search(text) is not None
        words = loose_words(text) if runs_rest else tuple(text.split())
        opens = is_command and re.search(r"[<>]", _QUOTED.sub("", text)) is not None
        redirects = ANY_FILE if opens else ()
        self._add(words, node, redirects=redirects, reason=reason, runs_rest=runs_rest)

    def _on_function_definition(self, node: Node) -> None:
        self.taint = self.taint or "it defines a function"

    def _on_c_style_for_statement(self, node: Node) -> None:
        self._add(None, node, reason="arithmetic is not understood")

    def _on_ERROR(self, node: Node) -> None:
        self._not_understood(node)

    def _on_comment(self, node: Node) -> None:
        before = self.source[node.start_byte - 1 : node.start_byte]
        if before not in (b"", b" ", b"\t", b"\n", b";", b"&", b"|", b"(", b")"):
            self.taint = self.taint or "a comment starts inside of a word"

    # --- redirects ---

    def _on_redirected_statement(self, node: Node) -> None:
        redirects: list[Redirect] = []
        late: list[Node] = []
        reason = ""
        self._opened.update(descriptor_ends(node))
        for index, child in enumerate(node.children):
            if child.type == "file_redirect":
                files, problem = self._opened_by(child)
                redirects += files
                reason = reason or self._descriptor(node, index) or problem
                late += late_words(child)
            elif child.type == "heredoc_redirect":
                late += words_of_mark(child)
        if late:
            self._hang(late, node)
        if redirects or reason:
            self._add((), node, redirects=tuple(redirects), reason=reason)

    def _on_file_redirect(self, node: Node) -> None:
        """Seen with its command or its statement, except inside of a here-document's first line."""
        if self._above not in ("command", "redirected_statement"):
            files, reason = self._opened_by(node)
            if late_words(node):
                reason = reason or "words after a here-document's mark"
            self._add((), node, redirects=files, reason=reason)

    def _opened_by(self, redirect: Node) -> tuple[tuple[Redirect, ...], str]:
        if self._foreign and is_of_bash(redirect, self.source):
            self._only_bash(source_text(redirect, self.source))
        return opened(redirect, self.source)

    def _on_heredoc_redirect(self, node: Node) -> None:
        self.taint = self.taint or heredoc_problem(node, self.source)

    def _descriptor(self, node: Node, index: int) -> str:
        redirect = node.children[index]
        has_number = bool(index) and redirect.children[0].type == "file_descriptor"
        if has_number and node.children[index - 1].end_byte == redirect.start_byte:
            return "a digit that touches a word is not understood"
        return ""

    def _hang(self, late: list[Node], statement: Node) -> None:
        """Give words after a redirect to the last command before it."""
        node = statement.children[0]
        while node.type != "command":
            below = [child for child in node.children if child.is_named]
            if not below or node.type not in ("list", "pipeline", "negated_command"):
                self.taint = self.taint or "words after a redirect are not understood"
                return
            node = below[-1]
        self._late.setdefault(node.start_byte, []).extend(late)


def _joined(command: Node) -> Literal["", ";", "&&"]:
    """Return how a command follows the one before it, if it runs in the shell of the line itself."""
    node, before = command, ""
    while (above := node.parent) is not None:
        after = node.next_sibling
        if above.type not in ("program", "list", "redirected_statement") or (after is not None and after.type == "&"):
            return ""
        if not before and above.type == "list" and node.prev_sibling is not None:
            before = node.prev_sibling.type
        node = above
    if before in ("", ";", "\n"):
        return ";"
    return "&&" if before == "&&" else ""


def _calculates(test: str) -> bool:
    """Return whether a test compares something as a number that is not one."""
    words = test.split() if test.startswith("[[") else []
    found = (pair for at, word in enumerate(words) if word in _COMPARES_NUMBERS for pair in words[at - 1 : at + 2 : 2])
    return any(not re.fullmatch(r"-?[0-9]+", word, re.ASCII) for word in found)
