"""Read YAML files, and Markdown files with YAML front matter, and remember on which line everything stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amplifier_foundation.errors import DocumentError

_FENCE = "---"


@dataclass(frozen=True)
class Document:
    """One file, parsed: the mapping in it, the text after the front matter, and where each key stands."""

    path: Path
    data: dict[str, Any] = field(default_factory=dict)
    #: The Markdown after the front matter, stripped; empty for YAML files.
    body: str = ""
    _node: Any = None
    _first_line: int = 1

    def line(self, *keys: str | int) -> int:
        """Return the line of the entry that `keys` lead to, or of the nearest one around it that exists."""
        node, line = self._node, self._first_line
        for key in keys:
            found = _child(node, key)
            if found is None:
                break
            mark, node = found
            line = self._first_line + mark.line
        return line

    def where(self, *keys: str | int) -> str:
        """Return `file:line` of the entry that `keys` lead to, as the beginning of a message."""
        return f"{self.path}:{self.line(*keys)}"


def read_document(path: Path) -> Document:
    """Return the document in `path`; a byte order mark and any line ends are fine.

    Raises DocumentError, naming file and line, for a file that is missing, unreadable, not UTF-8, malformed, not a
    mapping, that has a key twice in one mapping, or that contains itself.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise DocumentError(f"{path}: there is no such file") from error
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror or error}") from error
    return parse_document(path, content)


def parse_document(path: Path, content: bytes) -> Document:
    """Return the document that `content` holds; `path` tells its kind and is named in errors. Raises DocumentError."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentError(f"{path}:{line}: not UTF-8 ({error.reason}): save the file as UTF-8") from error
    front, body, first_line = _split(path, text) if path.suffix.lower() == ".md" else (text, "", 1)
    data, node = _parse(path, front, first_line)
    return Document(path, data, body.strip(), node, first_line)


def _split(path: Path, text: str) -> tuple[str, str, int]:
    """Return front matter, body, and the line the front matter starts at."""
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].strip() != _FENCE:
        return "", text, 1
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip() == _FENCE:
            return "".join(lines[1:index]), "".join(lines[index + 1 :]), 2
    raise DocumentError(f"{path}:1: the front matter opened by '---' is never closed: add a line '---' after it")


def _parse(path: Path, text: str, first_line: int) -> tuple[dict[str, Any], Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return {}, None
        for fault, mark in _faults(node, set()):
            raise DocumentError(f"{path}:{first_line + mark.line}: {fault}")
        data = loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = first_line + (mark.line if mark is not None else 0)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise DocumentError(f"{path}:{line}: malformed YAML: {problem}") from error
    except (ValueError, RecursionError) as error:  # an impossible date, or thousands of levels
        raise DocumentError(f"{path}:{first_line}: malformed YAML: {error}") from error
    finally:
        loader.dispose()
    if not isinstance(data, dict):
        raise DocumentError(f"{path}:{first_line}: must be a mapping of keys, got {type(data).__name__}")
    return data, node


def _faults(node: Any, above: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield what YAML lets pass and nobody means: a key given twice, a node that contains itself."""
    if not isinstance(node.value, list):
        return
    if id(node) in above:
        yield "a value that contains itself", node.start_mark
        return
    above.add(id(node))
    seen: set[tuple[str, str]] = set()
    for item in node.value:
        if isinstance(item, tuple):
            key, value = item
            name = (key.tag, str(key.value))
            if name in seen and not key.tag.endswith(":merge"):
                yield f"the key {key.value!r} is given twice: keep one of them", key.start_mark
            seen.add(name)
            yield from _faults(value, above)
        else:
            yield from _faults(item, above)
    above.discard(id(node))


def _child(node: Any, key: str | int) -> tuple[Any, Any] | None:
    """Return the mark and the node of one entry, None when there is no such entry."""
    entries = node.value if node is not None and isinstance(node.value, list) else []
    if isinstance(key, int):
        if 0 <= key < len(entries) and not isinstance(entries[key], tuple):
            return entries[key].start_mark, entries[key]
        return None
    for entry in entries:
        if isinstance(entry, tuple) and entry[0].value == key:
            return entry[0].start_mark, entry[1]
    return None
