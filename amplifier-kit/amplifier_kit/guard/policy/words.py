"""The words and redirects of a parsed shell line: texts without quotes, files that the shell opens, here-documents."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

from amplifier_kit.guard.policy.segments import HOLE, Redirect

if TYPE_CHECKING:
    from tree_sitter import Node


class UnknownWordError(Exception):
    """A word whose value or effect is unknown; the text names the part."""


#: Nodes that are words by themselves, as in the list of a loop or the patterns of a case.
WORDS: Final = frozenset({
    "word", "string", "raw_string", "ansi_c_string", "concatenation", "simple_expansion", "expansion",
    "arithmetic_expansion", "brace_expression", "extglob_pattern",
})  # fmt: skip
#: Compound nodes whose last command the redirects after them belong to.
_ENDS_IN_COMMAND: Final = ("list", "pipeline", "negated_command")
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ANSI: Final = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
_PLAIN_WORD: Final = re.compile(rb"[A-Za-z0-9_./=:@%+,-]+")
_PLAIN_EXPANSION: Final = re.compile(r"\$(\w+|[?$!#@*-])|\$\{#?\w+\}|\$\(\([0-9 +*/%()-]*\)\)", re.ASCII)


def source_text(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def word_text(node: Node, source: bytes) -> str:
    """Return a word's text; whatever the shell fills in when it runs is a hole.

    Raises:
        UnknownWordError: When the word has a form whose value or effect is unknown.
    """
    if node.type == "command_name" and node.child_count == 1:
        node = node.children[0]
    if node.type == "word" and _PLAIN_WORD.fullmatch(source, node.start_byte, node.end_byte):
        return source[node.start_byte : node.end_byte].decode("ascii")
    parts = _parts(node)
    text = "".join([_piece(part, source) for part in parts])
    if any(left.end_byte != right.start_byte for left, right in pairwise(parts)):
        raise UnknownWordError("a word with gaps")
    unquoted = (source_text(part, source) for part in parts if part.type in ("word", "brace_expression", "{", "}"))
    bare = re.sub(r"\\.", "", "".join(unquoted), flags=re.DOTALL)
    # A brace makes several words of one, and of which shape depends on quoting inside: nothing of it is known.
    return HOLE if "{" in bare and bare != "{}" else text


def shell_words(node: Node, source: bytes) -> list[str]:
    """Return a word's text, and after it a hole when it may become more words: blanks in a variable split it.

    Raises UnknownWordError as `word_text` does.
    """
    text = word_text(node, source)
    return [text, HOLE] if HOLE in text and text != HOLE and _may_split(node, source) else [text]


def gap_problem(nodes: list[Node], source: bytes) -> str:
    """Return why, when two words touch, which the shell reads as one, or something else than blanks is between them."""
    for left, right in pairwise(nodes):
        gap = source[left.end_byte : right.start_byte]
        touching = not gap and not right.type.endswith("_redirect") and not left.type.endswith("_redirect")
        if touching or gap.strip(b" \t"):
            return "words that touch are not understood"
    return ""


def last_command(statement: Node) -> Node | None:
    """Return the command that the redirects of a statement belong to; None for those of a group."""
    node = statement.children[0]
    while node.type != "command":
        below = [child for child in node.children if child.is_named]
        if not below or node.type not in _ENDS_IN_COMMAND:
            return None
        node = below[-1]
    return node


def _parts(node: Node) -> list[Node]:
    return node.children if node.type == "concatenation" else [node]


def _may_split(node: Node, source: bytes) -> bool:
    for part in _parts(node):
        if part.type in ("simple_expansion", "expansion", "command_substitution"):
            return True
        # Of all variables only these split a word also inside of quotes.
        if part.type == "string" and re.search(r"\$\{?[@*]", source_text(part, source)):
            return True
    return False


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
            return _ANSI.sub(_escaped_character, text[2:-1])
        case "simple_expansion" | "expansion" | "arithmetic_expansion" if _PLAIN_EXPANSION.fullmatch(text):
            return HOLE
        # The commands of substitutions are found by the walk over the tree.
        case "brace_expression" | "command_substitution" | "process_substitution":
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
            continue
        pieces.append(text[: len(text) - len(bare)])
        if bare == "$":
            pieces.append(bare)
        else:
            pieces.append(HOLE if _PLAIN_EXPANSION.fullmatch(bare) else _piece(child, source))
    pieces.append(_in_quotes(source[at : last.end_byte - 1].decode("utf-8", "replace")))
    return "".join(pieces)


def _in_quotes(text: str) -> str:
    if re.search(r"(?<!\\)(?:\\\\)*`", text):
        raise UnknownWordError("a backtick inside of quotes")
    return re.sub(r"\\([$`\"\\\n])", lambda found: "" if found[1] == "\n" else found[1], text)


def _escaped_character(found: re.Match[str]) -> str:
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


def _assignment(node: Node, source: bytes) -> str:
    name, operator, *values = node.children
    if name.type != "variable_name" or operator.type not in ("=", "+=") or len(values) > 1:
        raise UnknownWordError(f"the assignment {source_text(node, source)!r}")
    return f"{source_text(name, source)}{operator.type}{word_text(values[0], source) if values else ''}"


# --- redirects ---

_HARMLESS_FILES: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin"})
_OPENS: Final[dict[str, tuple[Literal["read", "write"], ...]]] = {
    **dict.fromkeys((">", ">>", ">|", "&>", "&>>", ">&"), ("write",)),
    **dict.fromkeys(("<", "<&"), ("read",)),
    "<>": ("read", "write"),
}
_CLOSES: Final = frozenset({">&-", "<&-"})
#: To the shell, too large a number is a word.
_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
#: Any file, for reading or for writing.
ANY_FILE: Final = (Redirect("read", None), Redirect("write", None))


def opened_files(redirect: Node, source: bytes) -> tuple[tuple[Redirect, ...], str]:
    """Return the files that a redirect opens, and why they are not known, if so."""
    try:
        files = _opened_files(redirect, source)
    except UnknownWordError as error:
        return ANY_FILE, f"{error} is not understood"
    is_unknown = any(file.target is None for file in files)
    return files, "a redirect's file is known only when it runs" if is_unknown else ""


def is_of_bash(redirect: Node, source: bytes) -> bool:
    """Return whether other shells read a redirect otherwise: `>&` before a file, a number of more than one digit."""
    operator, destinations = _operator(redirect)
    names_file = operator == ">&" and not (destinations and source_text(destinations[0], source).isdigit())
    return names_file or any(len(number) > 1 for number in _numbers(redirect, source))


def late_words(redirect: Node) -> list[Node]:
    """Return the words that the grammar hangs on a redirect: all but its file, which a closing one does not have."""
    operator, destinations = _operator(redirect)
    named = [child for child in destinations if child.is_named]
    return named if operator in _CLOSES else named[1:]


def heredoc_words(heredoc: Node) -> list[Node]:
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


def _numbers(redirect: Node, source: bytes) -> list[str]:
    return [source_text(child, source) for child in redirect.children if child.type == "file_descriptor"]


def _operator(redirect: Node) -> tuple[str, list[Node]]:
    """Return the operator of a redirect and the nodes after it."""
    operator, *rest = [child for child in redirect.children if child.type != "file_descriptor"]
    # The grammar does not know `<>`.
    is_both = operator.type == "<" and rest and rest[0].type == "ERROR" and rest[0].start_byte == operator.end_byte
    if is_both and [child.type for child in rest[0].children] == [">"]:
        return "<>", rest[1:]
    return operator.type, rest


def _opened_files(redirect: Node, source: bytes) -> tuple[Redirect, ...]:
    operator, destinations = _operator(redirect)
    unknown = UnknownWordError(f"the redirect {source_text(redirect, source)!r}")
    # The grammar takes some words that end in a digit for a number.
    if gap_problem(destinations, source) or not all(map(_NUMBER.fullmatch, _numbers(redirect, source))):
        raise unknown
    if operator in _CLOSES:
        return ()
    if not destinations:
        raise unknown
    destination = destinations[0]
    if destination.type == "process_substitution":
        return ()
    text = word_text(destination, source)
    is_doubled = operator in (">&", "<&")
    if text in _HARMLESS_FILES or (is_doubled and re.fullmatch(r"\d+-?|-", text)):
        return ()
    # The shell closes a descriptor with the dash alone: what touches it is the next word.
    if (is_doubled and text.startswith("-")) or operator not in _OPENS:
        raise unknown
    is_home = (text == "~" or text.startswith("~/")) and destination.type == "word"
    is_known = text and HOLE not in text and (is_home or not text.startswith(("~", "/dev/tcp/", "/dev/udp/")))
    # The shell removes the quotes of a word after `>&` twice.
    if is_doubled and source_text(destination, source) != text:
        is_known = False
    return tuple(Redirect(kind, text if is_known else None) for kind in _OPENS[operator])


# --- here-documents ---

_MARK: Final = re.compile(rb"(?P<plain>[A-Za-z_]\w*)|'([A-Za-z_]\w*)'|\"([A-Za-z_]\w*)\"|\\([A-Za-z_]\w*)")
#: Nodes that may follow the mark on its line: redirects, and further commands.
_USUAL: Final = frozenset(
    {"heredoc_start", "heredoc_body", "heredoc_end", "file_redirect", "pipeline", "command", "list", "comment"}
)


def heredoc_problem(node: Node, source: bytes) -> str:
    """Return why the shell may read a here-document otherwise than the grammar, or an empty text."""
    parts = {child.type: child for child in node.children}
    start, body, end = (parts.get(f"heredoc_{name}") for name in ("start", "body", "end"))
    if start is None or end is None:
        return "a here-document that does not end"
    if any(child.is_named and child.type not in _USUAL for child in node.children):
        return "words after a here-document's mark"
    mark = _MARK.fullmatch(source, start.start_byte, start.end_byte)
    if mark is None:
        return "a here-document with an unusual end mark"
    rest, newline, _ = source[start.end_byte :].partition(b"\n")
    if not newline or any(character in rest for character in b"'\"\\`#") or b"<<" in rest:
        return "a here-document whose first line is not plain"
    first = start.end_byte + len(rest) + 1
    found = _heredoc_end(source, first, next(filter(None, mark.groups())), is_indented="<<-" in parts)
    if found != end.start_byte:
        return "a here-document that ends elsewhere"
    if mark["plain"] is None:
        return "a quoted here-document with parts" if body is not None and body.named_child_count else ""
    text = source[first:found]
    if b"`" in text or b"${" in text or (b"\\" in text and b"$" in text):
        return "a here-document with expansions that are not plain"
    if text.count(b"$(") != (_substitutions(body) if body is not None else 0):
        return "a here-document with substitutions that were not found"
    return ""


def _heredoc_end(source: bytes, at: int, mark: bytes, *, is_indented: bool) -> int | None:
    while at <= len(source):
        line = source[at:].partition(b"\n")[0]
        bare = line.lstrip(b"\t") if is_indented else line
        if bare == mark:
            return at + len(line) - len(bare)
        at += len(line) + 1
    return None


def _substitutions(node: Node) -> int:
    """Return how many command substitutions the grammar found below a node."""
    count, waiting = 0, [node]
    while waiting:
        current = waiting.pop()
        count += current.type == "command_substitution"
        waiting += current.children
    return count
