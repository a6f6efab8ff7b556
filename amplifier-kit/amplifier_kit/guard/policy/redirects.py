"""Redirects and here-documents: the files that the shell opens, and where text ends and commands begin again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from amplifier_kit.guard.policy.segments import HOLE, Redirect
from amplifier_kit.guard.policy.words import WORDS, UnknownWordError, gap_problem, source_text, word_text

if TYPE_CHECKING:
    from tree_sitter import Node

_HARMLESS_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin"})
_WRITES = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})
_READS = frozenset({"<", "<&"})
_CLOSES = frozenset({">&-", "<&-"})
#: To the shell, too large a number is a word.
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
#: What may be any file, for reading or for writing.
ANY_FILE = (Redirect("read", None), Redirect("write", None))


def opened(node: Node, source: bytes) -> tuple[tuple[Redirect, ...], str]:
    """Return the files that a redirect opens, and why they are not known, if so."""
    try:
        redirects = _opened(node, source)
    except UnknownWordError as error:
        return ANY_FILE, f"{error} is not understood"
    is_unknown = any(redirect.target is None for redirect in redirects)
    return redirects, "a redirect's file is known only when it runs" if is_unknown else ""


def is_of_bash(node: Node, source: bytes) -> bool:
    """Return whether other shells read a redirect otherwise: `>&` before a file, a number of more than one digit."""
    operator, destinations = _parts(node)
    names_file = operator == ">&" and not (destinations and source_text(destinations[0], source).isdigit())
    return names_file or any(len(number) > 1 for number in _numbers(node, source))


def late_words(redirect: Node) -> list[Node]:
    """Return the words that the grammar hangs on a redirect: all but its file, which a closing one does not have."""
    operator, destinations = _parts(redirect)
    named = [child for child in destinations if child.is_named]
    return named if operator in _CLOSES else named[1:]


def words_of_mark(heredoc: Node) -> list[Node]:
    """Return the words on the line of a here-document's mark, also those behind another redirect."""
    found: list[Node] = []
    for part in heredoc.children:
        if part.type in WORDS or part.type == "number":
            found.append(part)
        elif part.type == "file_redirect":
            found += late_words(part)
    return found


def descriptor_ends(node: Node) -> list[int]:
    """Return where the redirects below a node start that may have a number before them."""
    redirects = [child for child in node.children if child.type.endswith("_redirect")]
    return [each.start_byte for each in redirects if each.children[0].type not in ("&>", "&>>")]


def _numbers(node: Node, source: bytes) -> list[str]:
    return [source_text(child, source) for child in node.children if child.type == "file_descriptor"]


def _parts(node: Node) -> tuple[str, list[Node]]:
    """Return the operator of a redirect and what stands behind it."""
    operator, *rest = [child for child in node.children if child.type != "file_descriptor"]
    # The grammar does not know `<>`.
    is_both = operator.type == "<" and rest and rest[0].type == "ERROR" and rest[0].start_byte == operator.end_byte
    if is_both and [child.type for child in rest[0].children] == [">"]:
        return "<>", rest[1:]
    return operator.type, rest


def _opened(node: Node, source: bytes) -> tuple[Redirect, ...]:
    operator, destinations = _parts(node)
    # The grammar takes some words that end in a digit for a number.
    is_odd = gap_problem(destinations, source) or any(not _NUMBER.fullmatch(each) for each in _numbers(node, source))
    if is_odd or (not destinations and operator not in _CLOSES):
        raise UnknownWordError(f"the redirect {source_text(node, source)!r}")
    if operator in _CLOSES or destinations[0].type == "process_substitution":
        return ()
    text = word_text(destinations[0], source)
    is_doubled = operator in (">&", "<&")
    if text in _HARMLESS_FILES or (is_doubled and re.fullmatch(r"\d+-?|-", text)):
        return ()
    if is_doubled and text.startswith("-"):
        # The shell closes a descriptor with the dash alone: what touches it is the next word.
        raise UnknownWordError(f"the redirect {source_text(node, source)!r}")
    target = None if _is_unknown(text, destinations[0]) else text
    if is_doubled and source_text(destinations[0], source) != text:
        # The shell takes such a word's quotes away twice.
        target = None
    return tuple(Redirect(kind, target) for kind in _kinds(operator, node, source))


def _is_unknown(text: str, node: Node) -> bool:
    if HOLE in text or not text or text.startswith(("/dev/tcp/", "/dev/udp/")):
        return True
    is_home = (text == "~" or text.startswith("~/")) and node.type == "word"
    return text.startswith("~") and not is_home


def _kinds(operator: str, node: Node, source: bytes) -> tuple[Literal["read", "write"], ...]:
    if operator == "<>":
        return ("read", "write")
    if operator not in _WRITES | _READS:
        raise UnknownWordError(f"the redirect {source_text(node, source)!r}")
    return ("write",) if operator in _WRITES else ("read",)


# --- here-documents ---

_PLAIN = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED = re.compile(rb"'([A-Za-z_][A-Za-z0-9_]*)'|\"([A-Za-z_][A-Za-z0-9_]*)\"|\\([A-Za-z_][A-Za-z0-9_]*)")
#: What else may stand on the line of the mark: redirects, and commands that follow.
_USUAL = frozenset(
    {"heredoc_start", "heredoc_body", "heredoc_end", "file_redirect", "pipeline", "command", "list", "comment"}
)


def heredoc_problem(node: Node, source: bytes) -> str:
    """Return why a here-document may not be what the grammar takes it for, or an empty text."""
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
