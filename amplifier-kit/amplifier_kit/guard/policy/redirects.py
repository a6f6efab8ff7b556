"""Redirects as the grammar reads them: the files that the shell opens, and the words that hang on them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from amplifier_kit.guard.policy.segment import HOLE, Redirect
from amplifier_kit.guard.policy.words import WORDS, NotKnown, gap_problem, source_text, word_text

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
    except NotKnown as error:
        return ANY_FILE, f"{error} is not understood"
    is_unknown = any(redirect.target is None for redirect in redirects)
    return redirects, "a redirect's file is known only when it runs" if is_unknown else ""


def is_of_bash(node: Node, source: bytes) -> bool:
    """Tell whether other shells read a redirect otherwise: `>&` before a file, a number of more than one digit."""
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
        raise NotKnown(f"the redirect {source_text(node, source)!r}")
    if operator in _CLOSES or destinations[0].type == "process_substitution":
        return ()
    text = word_text(destinations[0], source)
    is_doubled = operator in (">&", "<&")
    if text in _HARMLESS_FILES or (is_doubled and re.fullmatch(r"\d+-?|-", text)):
        return ()
    if is_doubled and text.startswith("-"):
        # The shell closes a descriptor with the dash alone: what touches it is the next word.
        raise NotKnown(f"the redirect {source_text(node, source)!r}")
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
        raise NotKnown(f"the redirect {source_text(node, source)!r}")
    return ("write",) if operator in _WRITES else ("read",)
