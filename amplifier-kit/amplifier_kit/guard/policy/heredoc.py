"""Here-documents, checked by hand: where one ends decides what is text and what is a command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_PLAIN = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED = re.compile(rb"'([A-Za-z_][A-Za-z0-9_]*)'|\"([A-Za-z_][A-Za-z0-9_]*)\"|\\([A-Za-z_][A-Za-z0-9_]*)")
#: What else may stand on the line of the mark: redirects, and commands that follow.
_USUAL = frozenset(
    {"heredoc_start", "heredoc_body", "heredoc_end", "file_redirect", "pipeline", "command", "list", "comment"}
)


def heredoc_problem(node: Node, source: bytes) -> str:
    """Say why a here-document may not be what the grammar takes it for, or return nothing."""
    parts = {child.type: child for child in node.children}
    start, body, end = (parts.get(f"heredoc_{name}") for name in ("start", "body", "end"))
    if start is None or end is None:
        return "a here-document that does not end"
    if any(child.is_named and child.type not in _USUAL for child in node.children):
        return "words after a here-document's mark"
    written = source[start.start_byte : start.end_byte]
    quoted = _QUOTED.fullmatch(written)
    if quoted is None and not _PLAIN.fullmatch(written):
        return "a here-document with an unusual end mark"
    mark = next(group for group in quoted.groups() if group) if quoted else written
    rest, newline, _ = source[start.end_byte :].partition(b"\n")
    if not newline or any(character in rest for character in b"'\"\\`#") or b"<<" in rest:
        return "a here-document whose first line is not plain"
    first = start.end_byte + len(rest) + 1
    found = _end_of(source, first, mark, is_indented=any(child.type == "<<-" for child in node.children))
    if found is None or found != end.start_byte:
        return "a here-document that ends elsewhere"
    if quoted is not None:
        return "a quoted here-document with parts" if body is not None and body.named_child_count else ""
    return _expansions(source[first:found], body)


def _end_of(source: bytes, at: int, mark: bytes, *, is_indented: bool) -> int | None:
    while at <= len(source):
        line = source[at:].partition(b"\n")[0]
        bare = line.lstrip(b"\t") if is_indented else line
        if bare == mark:
            return at + len(line) - len(bare)
        at += len(line) + 1
    return None


def _expansions(text: bytes, body: Node | None) -> str:
    """Compare the substitutions that can be seen in a body with those that the grammar found."""
    if b"`" in text or b"${" in text or (b"\\" in text and b"$" in text):
        return "a here-document with expansions that are not plain"
    if text.count(b"$(") != (_substitutions(body) if body is not None else 0):
        return "a here-document with substitutions that were not found"
    return ""


def _substitutions(node: Node) -> int:
    count, waiting = 0, [node]
    while waiting:
        current = waiting.pop()
        count += current.type == "command_substitution"
        waiting += current.children
    return count
