"""The text of one shell word, once its quotes are gone."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from amplifier_kit.guard.policy.segments import HOLE

if TYPE_CHECKING:
    from tree_sitter import Node


class UnknownWordError(Exception):
    """A word that this reader does not take apart; the text says what it met."""


#: Where a word stands that is no argument: the list of a loop, the subject and the patterns of a case.
WORDS = frozenset({
    "word", "string", "raw_string", "ansi_c_string", "concatenation", "simple_expansion", "expansion",
    "arithmetic_expansion", "brace_expression", "extglob_pattern",
})  # fmt: skip
_ESCAPES = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ANSI = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
_PLAIN_WORD = re.compile(rb"[A-Za-z0-9_./=:@%+,-]+")
_PLAIN_EXPANSION = re.compile(r"\$(\w+|[?$!#@*-])|\$\{#?\w+\}", re.ASCII)
_PLAIN_ARITHMETIC = re.compile(r"\$\(\([0-9 +*/%()-]*\)\)")
#: Substitutions: their commands are found by the walk over the tree, here they are only text that is not known yet.
_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})


def word_text(node: Node, source: bytes) -> str:
    """Return a word's text; what the shell fills in when it runs is a hole.

    Raises:
        UnknownWordError: When the word has a form whose value or effect is unknown.
    """
    if node.type == "command_name" and node.child_count == 1:
        node = node.children[0]
    if node.type == "word" and _PLAIN_WORD.fullmatch(source, node.start_byte, node.end_byte):
        return source[node.start_byte : node.end_byte].decode("ascii")
    pieces = [_piece(part, source) for part in (node.children if node.type == "concatenation" else [node])]
    if node.type == "concatenation":
        _check_adjacent(node)
    text = "".join(pieces)
    bare = _bare(node, source)
    # A brace makes several words of one, and of which shape depends on quoting inside: nothing of it is known.
    if "{" in bare and bare != "{}":
        return HOLE
    return text


def shell_words(node: Node, source: bytes) -> list[str]:
    """Return a word's text, and behind it a hole when more words may come of it: blanks in a variable part it.

    Raises UnknownWordError as `word_text` does.
    """
    text = word_text(node, source)
    is_parted = HOLE in text and text != HOLE and _is_parted(node, source)
    return [text, HOLE] if is_parted else [text]


def gap_problem(nodes: list[Node], source: bytes) -> str:
    """Return why, when two words touch, which to the shell are one, or something else than blanks is between them."""
    for left, right in pairwise(nodes):
        gap = source[left.end_byte : right.start_byte]
        touching = not gap and not right.type.endswith("_redirect") and not left.type.endswith("_redirect")
        if touching or gap.strip(b" \t"):
            return "words that touch are not understood"
    return ""


def source_text(node: Node, source: bytes) -> str:
    """Return the source of a node."""
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _is_parted(node: Node, source: bytes) -> bool:
    parts = node.children if node.type == "concatenation" else [node]
    if any(part.type in ("simple_expansion", "expansion", "command_substitution") for part in parts):
        return True
    # Of all variables only these part a word also inside of quotes.
    return any(part.type == "string" and re.search(r"\$\{?[@*]", source_text(part, source)) for part in parts)


def _check_adjacent(node: Node) -> None:
    children = node.children
    if any(left.end_byte != right.start_byte for left, right in pairwise(children)):
        raise UnknownWordError("a word with gaps")


def _bare(node: Node, source: bytes) -> str:
    """Return what of a word is outside of quotes."""
    parts = node.children if node.type == "concatenation" else [node]
    kinds = ("word", "brace_expression", "{", "}")
    text = "".join(source_text(part, source) for part in parts if part.type in kinds)
    return re.sub(r"\\.", "", text, flags=re.DOTALL)


def _piece(node: Node, source: bytes) -> str:
    text = source_text(node, source)
    match node.type:
        case "command_name":
            if len(node.children) != 1:
                raise UnknownWordError(f"a name of an unknown form, {text!r}")
            return word_text(node.children[0], source)
        case "word" | "number" | "variable_name" | "test_operator":
            return _unescaped(text)
        case "raw_string":
            return text[1:-1]
        case "string":
            return _quoted(node, source)
        case "ansi_c_string":
            return _ansi(text)
        case "simple_expansion" | "expansion" if _PLAIN_EXPANSION.fullmatch(text):
            return HOLE
        case "arithmetic_expansion" if _PLAIN_ARITHMETIC.fullmatch(text):
            return HOLE
        case "brace_expression":
            return HOLE
        case kind if kind in _SUBSTITUTIONS:
            return HOLE
        case "variable_assignment":
            return _assignment(node, source)
        case kind:
            raise UnknownWordError(f"{kind.replace('_', ' ')} {text!r}")


def _unescaped(text: str) -> str:
    result: list[str] = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            result.append(next(characters, "\\"))
        elif character in "*?[":
            # File names take its place, and they may look like options.
            result.append(HOLE)
        elif character in "\"'`$;&|<>() \t\n":
            raise UnknownWordError(f"the character {character!r} inside of a word")
        else:
            result.append(character)
    return "".join(result)


def _quoted(node: Node, source: bytes) -> str:
    pieces: list[str] = []
    *children, last = node.children
    if not children or children[0].type != '"' or last.type != '"':
        raise UnknownWordError("a quote of an unknown form")
    at = children[0].end_byte
    for child in children[1:]:
        # Blanks between the parts belong to the text, though the grammar leaves them out or to the next part.
        text = source_text(child, source)
        bare = text.lstrip(" \t\n")
        pieces.append(_in_quotes(source[at : child.start_byte].decode("utf-8", "replace")))
        at = child.end_byte
        if child.type == "string_content":
            pieces.append(_in_quotes(text))
        else:
            pieces.append(text[: len(text) - len(bare)])
            pieces.append(_in_quoted_part(child, bare, source))
    pieces.append(_in_quotes(source[at : last.end_byte - 1].decode("utf-8", "replace")))
    return "".join(pieces)


def _in_quoted_part(node: Node, bare: str, source: bytes) -> str:
    if bare == "$":
        return bare
    if _PLAIN_EXPANSION.fullmatch(bare) or _PLAIN_ARITHMETIC.fullmatch(bare):
        return HOLE
    return _piece(node, source)


def _in_quotes(text: str) -> str:
    if re.search(r"(?<!\\)(?:\\\\)*`", text):
        raise UnknownWordError("a backtick inside of quotes")
    return re.sub(r"\\([$`\"\\\n])", lambda found: "" if found[1] == "\n" else found[1], text)


def _ansi(text: str) -> str:
    def value(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] in "xuU" and len(code) > 1:
            number = int(code[1:], 16)
        elif code[0] in "01234567":
            number = int(code, 8) & 0xFF
        elif code in _ESCAPES:
            return _ESCAPES[code]
        else:
            raise UnknownWordError(f"the escape \\{code}")
        # Above 127 an escape names a byte, which is a character only together with others.
        if not 0 < number < 0x80 and not (code[0] in "uU" and 0x80 <= number < 0xD800):
            raise UnknownWordError(f"the escape \\{code}")
        return chr(number)

    return _ANSI.sub(value, text[2:-1])


def _assignment(node: Node, source: bytes) -> str:
    name, operator, *values = node.children
    if name.type != "variable_name" or operator.type not in ("=", "+=") or len(values) > 1:
        raise UnknownWordError(f"the assignment {source_text(node, source)!r}")
    return f"{source_text(name, source)}{operator.type}{word_text(values[0], source) if values else ''}"
