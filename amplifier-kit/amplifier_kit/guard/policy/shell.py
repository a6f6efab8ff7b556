"""A shell line taken apart into the commands that it runs, as strictly as rules need it.

Whatever is not understood is an opaque segment, never left out.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from amplifier_kit.guard.policy.hazards import hazardous_word
from amplifier_kit.guard.policy.programs import folder_builtins, is_hazardous_variable
from amplifier_kit.guard.policy.segments import (
    HOLE,
    MAX_STARTS,
    RESERVED,
    Redirect,
    Segment,
    loose_words,
    shortened,
    unreadable,
)
from amplifier_kit.guard.policy.words import (
    ANY_FILE,
    WORDS,
    UnknownWordError,
    descriptor_ends,
    gap_problem,
    heredoc_problem,
    heredoc_words,
    is_of_bash,
    last_command,
    late_words,
    opened_files,
    shell_words,
    source_text,
    word_text,
)
from amplifier_kit.guard.policy.wrappers import (
    ASSIGNMENT,
    PLAIN_NAME,
    changes_folder,
    changes_shell,
    runs_others,
    unwrap,
)

if TYPE_CHECKING:
    from tree_sitter import Language, Node

_MAX_DEPTH: Final = 6
_MAX_SEGMENTS: Final = 500
#: A backslash at the end of a line that is not itself escaped.
_CONTINUED: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\\n")
#: The grammar takes a line that starts with a backslash for more words of the command before it.
_SLASHED: Final = re.compile(r"\n(?=\\[^\n])")


def parse_line(line: str) -> list[Segment]:
    """Return every command that a line may run, also those inside of others; never raises."""
    found = _parse(line, 0)
    if not found and line.strip():
        return [Segment(None, line, is_opaque=True, reason="no command was found in it")]
    return found


def parse_tree(source: bytes) -> Node:
    """Return the root of the syntax tree of a line of bash."""
    from tree_sitter import Parser

    return Parser(_bash()).parse(source).root_node


@cache
def _bash() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def _parse(script: str, depth: int, *, is_bash: bool = True) -> list[Segment]:
    problem = unreadable(script) or ("" if depth < _MAX_DEPTH else "nested too deeply")
    if problem:
        return [Segment(None, script, is_opaque=True, reason=problem)]
    joined, problem = _join_lines(script)
    walk = _Walk(joined.encode("utf-8"), is_bash=is_bash)
    walk.run()
    found: list[Segment] = []
    problem = problem or walk.taint
    for segment in walk.segments:
        problem = _take_apart(segment, depth, found) or problem
        if len(found) > _MAX_SEGMENTS:
            return [Segment(None, script, is_opaque=True, reason=f"more than {_MAX_SEGMENTS} commands")]
    if walk.is_foreign:
        # Its shell may split the script otherwise: for rules that deny, any word may be a program.
        words = loose_words(joined)
        starts = range(0, len(words), MAX_STARTS)
        found += [Segment(words[at : at + 2 * MAX_STARTS], joined, runs_rest=True) for at in starts]
    if _SLASHED.search(joined) and any(segment.is_opaque for segment in found):
        # No rule can allow it now; its words are only for the rules that deny.
        found += _parse(_SLASHED.sub("\n ", joined), depth + 1)
    if any(segment.words and changes_folder(segment.words[0]) for segment in found):
        found = [_in_unknown_folder(segment) for segment in found]
    if problem:
        found = [segment.opaque(problem) for segment in found]
        found = found or [Segment(None, script, is_opaque=True, reason=problem)]
    return found


def _join_lines(script: str) -> tuple[str, str]:
    """Join continued lines, as the shell does before it looks at words; return why not if that is uncertain."""
    if "\\\n" not in script:
        return script, ""
    if any(text in script for text in ("#", "'", "<<")):
        return script, "a line continues where comments, quotes or here-documents may end it"
    return _CONTINUED.sub(r"\1", script), ""


def _take_apart(segment: Segment, depth: int, found: list[Segment]) -> str:
    """Add a command and all that it runs; return why the line may mean something else, if so."""
    waiting, taint = [(segment, depth)], ""
    while waiting:
        current, level = waiting.pop()
        if not current.words:
            found.append(current)
            continue
        program = current.words[0]
        if HOLE in program or not program or program in RESERVED:
            is_reserved = program in RESERVED
            reason = f"`{program}` is a keyword" if is_reserved else "the program is known only when it runs"
            found.append(current.opaque(reason)._replace(runs_rest=True))
            continue
        if changes_shell(current.words):
            taint = f"`{program}` changes what other commands mean"
        if option := hazardous_word(current.words):
            current = current.opaque(f"`{option}` lets `{program}` run or write something else")
        waiting += _unwrapped(current, level, found)
    return taint


def _unwrapped(current: Segment, level: int, found: list[Segment]) -> list[tuple[Segment, int]]:
    """Add a command, unless it only passes on to another; return the commands that it runs."""
    assert current.words is not None
    wrapped = unwrap(current.words)
    if wrapped is None:
        found.append(current._replace(runs_rest=current.runs_rest or runs_others(current.words[0])))
        return []
    if level >= _MAX_DEPTH * 2:
        found.append(current.opaque("nested too deeply")._replace(runs_rest=True))
        return []
    if wrapped.reason:
        current = current.opaque(wrapped.reason)._replace(runs_rest=True)
    passes_on = wrapped.is_transparent and bool(wrapped.words)
    if not passes_on:
        found.append(current)
    for script in wrapped.scripts:
        inner = _parse(script, level + 1, is_bash=wrapped.is_bash)
        found += [segment._replace(joined="") for segment in inner]
    outer = Segment(None, current.text, is_opaque=current.is_opaque, reason=current.reason)
    if passes_on:
        within = (*current.within, current.words or ())
        outer = current._replace(within=within, assignments=(*current.assignments, *wrapped.assignments))
    return [(outer._replace(words=words), level + 1) for words in wrapped.words]


def _in_unknown_folder(segment: Segment) -> Segment:
    """Return a command of a line that changes its folder: relative paths in it may be anywhere."""
    if "/" in segment.program and not segment.program.startswith("/"):
        return segment.opaque(f"`{segment.program}` is relative to a folder that the line changes")
    redirects = tuple(
        each if each.target and each.target.startswith("/") else each._replace(target=None)
        for each in segment.redirects
    )
    if any(each.target is None for each in redirects):
        return segment.opaque("a redirect is relative to a folder that the line changes")._replace(redirects=redirects)
    return segment


# --- the syntax tree ---


def _kinds(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STRUCTURES: Final = _kinds(
    "program list pipeline subshell compound_statement if_statement elif_clause else_clause while_statement "
    "for_statement do_group case_statement case_item negated_command command_substitution process_substitution"
)
#: Parts of words and statements: they are judged where they are used, here only for the commands inside of them.
_PARTS: Final = _kinds(
    "word string raw_string ansi_c_string concatenation simple_expansion expansion arithmetic_expansion number array "
    "string_content variable_name special_variable_name command_name brace_expression herestring_redirect "
    "binary_expression unary_expression parenthesized_expression test_operator regex subscript extglob_pattern "
    "heredoc_body heredoc_content heredoc_start heredoc_end file_descriptor ternary_expression postfix_expression "
    "translated_string variable_assignments"
)
#: Parts that never have parts themselves.
_LEAVES: Final = _kinds("word raw_string number variable_name string_content test_operator file_descriptor")
#: Their text is more than their children: it is taken from the source.
_LOOSE: Final = _kinds("string heredoc_body heredoc_redirect expansion arithmetic_expansion test_command regex ERROR")
#: A test without anything that the shell would fill in, open or write.
_PLAIN_TEST: Final = re.compile(r"\[ [\w \t./=!-]* \]|\[\[ [\w\s./=!&|-]* \]\]", re.ASCII)
#: Ends a command, and with it a test between single brackets, which is one: the grammar reads on.
_COMMAND_ENDS: Final = re.compile(r"[\n;&|]")
_QUOTED: Final = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
#: `[[` evaluates both sides of these as arithmetic: to evaluate a name may run a command in the variable.
_COMPARES_NUMBERS: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
#: Also one of an array, whose subscript may be anything.
_NAMED_DESCRIPTOR: Final = re.compile(rb"(?<!\$)\{\w+(\[[^\n]*?\])?\}[<>]")
#: Other shells read these as something else, or split where bash does not.
_BASH_ONLY: Final = _kinds(
    "[[ (( &> &>> |& ;& ;;& <<< += select function ansi_c_string translated_string process_substitution array "
    "subscript c_style_for_statement extglob_pattern"
)
_TOKENS: Final = _kinds(
    "; & && || | |& ( ) { } $( ` <( >( ;; ;& ;;& if then fi elif else while until do done for select in case esac ! "
    "' \" [ ] [[ ]] function"
) | {"\n"}


class _Walk:
    """One pass over the tree of a line; afterwards `segments` and, if the line may mean something else, `taint`.

    With `is_bash` false another shell reads the line, which is the same up to the first construct that only bash knows;
    `is_foreign` says that the line has one.
    """

    def __init__(self, source: bytes, *, is_bash: bool) -> None:
        self.source = source
        self.root = parse_tree(source)
        self.segments: list[Segment] = []
        self.is_foreign = False
        self._foreign = frozenset[str]() if is_bash else _BASH_ONLY
        self._above = ""
        self.taint = "it cannot be parsed" if self.root.has_error else ""
        # The grammar leaves out a backslash before the first blank, with which the name of the program starts.
        if source[: self.root.start_byte].strip(b" \t\n"):
            self._suspect("its beginning is not understood")
        if _NAMED_DESCRIPTOR.search(source):
            self._suspect("a redirect sets a variable")
        # Words after a redirect belong to the command before it, though the grammar hangs them on the redirect.
        self._late: dict[int, list[Node]] = {}
        # Where redirects start: a number that ends there is not a word.
        self._redirect_starts: set[int] = set()
        self._has_moves = any(name.encode() in source for name in folder_builtins())
        self._has_redirects = b"<" in source or b">" in source

    def run(self) -> None:
        """Visit every node, without recursion: lines can nest as deeply as they like."""
        waiting = [(self.root, "")]
        while waiting and len(self.segments) <= _MAX_SEGMENTS:
            node, self._above = waiting.pop()
            kind = node.type
            # Most of the tree is leaves that mean nothing by themselves.
            waiting += [(child, kind) for child in reversed(self._visit(node)) if child.type not in _LEAVES]
        if waiting:
            self.segments = []
            self.taint = f"more than {_MAX_SEGMENTS} commands"

    def _visit(self, node: Node) -> list[Node]:
        """Record what one node means, and return its children, which are still to be visited."""
        kind = node.type
        if kind in self._foreign:
            self._only_bash(kind)
        if kind not in _LOOSE and not self._is_whole(node):
            self._suspect("a part of it is not understood")
        if kind in _STRUCTURES:
            self._structure(node)
            return node.children
        visit = getattr(self, f"_on_{kind}", None) if node.is_named else None
        is_token = not node.is_named and (kind in _TOKENS or self._above not in _STRUCTURES)
        if visit is not None:
            visit(node)
        elif kind not in _PARTS and not is_token:
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

    def _structure(self, node: Node) -> None:
        first = node.children[0].type if node.children else ""
        if first == "((" or (first == "`" and b"\\" in self.source[node.start_byte : node.end_byte]):
            self._not_understood(node)
        for child in node.children:
            if child.type in WORDS:
                try:
                    word_text(child, self.source)
                except UnknownWordError as error:
                    self._add(None, child, reason=str(error))
            elif node.type == "for_statement" and child.type == "variable_name":
                self._assigned(source_text(child, self.source))

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

    def _suspect(self, reason: str) -> None:
        self.taint = self.taint or reason

    def _not_understood(self, node: Node) -> None:
        text = source_text(node, self.source)
        redirects = ANY_FILE if "<" in text or ">" in text else ()
        reason = f"{shortened(text)!r} is not understood"
        self._add(loose_words(text), node, redirects=redirects, reason=reason, runs_rest=True)

    def _only_bash(self, what: str) -> None:
        self.is_foreign = True
        self._suspect(f"only bash knows {what!r}")

    def _assigned(self, name: str) -> None:
        if not PLAIN_NAME.fullmatch(name):
            self._suspect(f"it sets the variable {name}")

    # --- commands ---

    def _on_command(self, node: Node) -> None:
        words: list[str] = []
        assignments: list[str] = []
        redirects: list[Redirect] = []
        reason = gap_problem(node.children, self.source)
        if self._has_redirects:
            self._redirect_starts.update(descriptor_ends(node))
        for child in [*node.children, *self._late.get(node.start_byte, ())]:
            # A number that touches a redirect belongs to it: the grammar takes 0 for a word.
            if child.end_byte in self._redirect_starts and self.source[child.start_byte : child.end_byte].isdigit():
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

    def _on_variable_assignment(self, node: Node) -> None:
        if self._above in ("command", "declaration_command"):
            return
        name = source_text(node.children[0], self.source)
        try:
            text = word_text(node, self.source)
        except UnknownWordError as error:
            self._add((), node, reason=str(error), assignments=(source_text(node, self.source),))
            self._suspect(f"{error} is not understood")
            return
        self._assigned(name)
        if not PLAIN_NAME.fullmatch(name):
            self._add((), node, assignments=(text,))

    def _on_declaration_command(self, node: Node) -> None:
        words = tuple(source_text(child, self.source) for child in node.children)
        self._add(words, node)
        self._suspect(f"`{words[0]}` changes what other commands mean")

    _on_unset_command = _on_declaration_command

    def _on_test_command(self, node: Node) -> None:
        text = source_text(node, self.source)
        is_plain = _PLAIN_TEST.fullmatch(text) and not re.search(r"(^|\s)-[vR]\b", text) and not _calculates(text)
        reason = "" if is_plain else "a test that is not plain"
        is_command = not text.startswith("[[")
        runs_rest = is_command and _COMMAND_ENDS.search(text) is not None
        words = loose_words(text) if runs_rest else tuple(text.split())
        redirects = ANY_FILE if is_command and re.search(r"[<>]", _QUOTED.sub("", text)) else ()
        self._add(words, node, redirects=redirects, reason=reason, runs_rest=runs_rest)

    def _on_function_definition(self, node: Node) -> None:
        self._suspect("it defines a function")

    def _on_c_style_for_statement(self, node: Node) -> None:
        self._add(None, node, reason="arithmetic is not understood")

    def _on_comment(self, node: Node) -> None:
        before = self.source[node.start_byte - 1 : node.start_byte]
        if before not in (b"", b" ", b"\t", b"\n", b";", b"&", b"|", b"(", b")"):
            self._suspect("a comment starts inside of a word")

    # --- redirects ---

    def _on_redirected_statement(self, node: Node) -> None:
        redirects: list[Redirect] = []
        late: list[Node] = []
        reason = ""
        self._redirect_starts.update(descriptor_ends(node))
        for index, child in enumerate(node.children):
            if child.type == "file_redirect":
                files, problem = self._opened_by(child)
                redirects += files
                has_number = bool(index) and child.children[0].type == "file_descriptor"
                if has_number and node.children[index - 1].end_byte == child.start_byte:
                    problem = "a digit that touches a word is not understood"
                reason = reason or problem
                late += late_words(child)
            elif child.type == "heredoc_redirect":
                late += heredoc_words(child)
        if late:
            command = last_command(node)
            if command is None:
                self._suspect("words after a redirect are not understood")
            else:
                self._late.setdefault(command.start_byte, []).extend(late)
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
        return opened_files(redirect, self.source)

    def _on_heredoc_redirect(self, node: Node) -> None:
        self._suspect(heredoc_problem(node, self.source))


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
