"""Read the YAML between the two `---` at the top of a file, and say on which line it goes wrong.

Errors never quote the file: a link may lead to one that must stay private.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from amplifier_kit.struct import FrozenStruct

#: As far as the end of the front matter is looked for.
LONGEST: Final = 64 * 1024

_FENCE: Final = b"---"
_BOM: Final = b"\xef\xbb\xbf"
_OTHER_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_DEEPEST: Final = 20


class FrontMatterError(ValueError):
    """Say what is wrong, on which line."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


class FrontMatter(FrozenStruct):
    """The keys at the top of a file, the line of each, and where the text after them begins."""

    data: dict[str, Any]
    lines: dict[str, int]
    #: Bytes before the text.
    length: int


def parse_front_matter(content: bytes) -> FrontMatter:
    """Return the front matter of what a file begins with; a byte order mark and any line ends are fine.

    Raises FrontMatterError when it is missing, not closed in the first 64 KiB, not UTF-8, not a YAML mapping, or has a
    duplicate key.
    """
    if content.startswith(_OTHER_BOMS):
        raise FrontMatterError(1, "the file is UTF-16: save it as UTF-8")
    start = len(_BOM) if content.startswith(_BOM) else 0
    head = content[start : start + LONGEST]
    lines = head.splitlines(keepends=True)
    if not lines or lines[0].rstrip() != _FENCE:
        raise FrontMatterError(1, "missing front matter: the first line must be '---'")
    end = next((index for index, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise FrontMatterError(1, "the front matter opened by '---' is not closed by another '---' in the first 64 KiB")
    data, keys = _parse(b"".join(lines[1:end]))
    return FrontMatter(data, keys, start + sum(map(len, lines[: end + 1])))


def decoded(content: bytes, first_line: int = 1) -> str:
    """Return text with line feeds only; raise FrontMatterError with the line of the first bytes that are not UTF-8."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + content.count(b"\n", 0, error.start)
        raise FrontMatterError(line, f"not UTF-8 ({error.reason}): save the file as UTF-8") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _parse(content: bytes) -> tuple[dict[str, Any], dict[str, int]]:
    import yaml

    text = decoded(content, first_line=2)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        _check_depth(text, yaml)
        node = loader.get_single_node()
        keys = _checked(node)
        data = loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise FrontMatterError(2 + (mark.line if mark is not None else 0), f"malformed YAML: {problem}") from error
    except (ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError) as error:
        if isinstance(error, FrontMatterError):
            raise
        raise FrontMatterError(2, f"malformed YAML: {type(error).__name__}") from error
    finally:
        loader.dispose()
    return {str(key): value for key, value in data.items()}, keys


def _check_depth(text: str, yaml: Any) -> None:
    """Raise FrontMatterError for values nested deeper than anybody writes: the parser would overrun the stack."""
    depth = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                problem = f"values are nested more than {_DEEPEST} levels deep"
                raise FrontMatterError(2 + event.start_mark.line, problem)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            raise FrontMatterError(2 + event.start_mark.line, "aliases have no place in front matter: write it out")


def _checked(node: Any) -> dict[str, int]:
    """Return the line of every key; raise FrontMatterError unless it is a mapping without duplicate keys."""
    if node is None or not node.tag.endswith(":map"):
        raise FrontMatterError(2, "the front matter must be a mapping of keys")
    lines: dict[str, int] = {}
    for key, _ in node.value:
        line = 2 + key.start_mark.line
        if not isinstance(key.value, str):
            raise FrontMatterError(line, "a list or a mapping cannot be a key")
        if key.value in lines:
            raise FrontMatterError(line, "a key is given twice: keep one of them")
        lines[key.value] = line
    return lines


def value_of(data: Mapping[str, Any], key: str) -> Any:
    """Return what stands under a key, which may be written with hyphens or underscores; None when nothing does."""
    return data.get(key, data.get(key.replace("-", "_")))


def plain(value: Any) -> Any:
    """Return a value of YAML in the words of JSON: dates, bytes and numbers that are none become text, sets lists."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, str | bool | int):
        return value
    return value if isinstance(value, float) and isfinite(value) else str(value)
