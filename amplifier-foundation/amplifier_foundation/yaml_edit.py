"""Edit a YAML file of the user: change one value and leave every other character as it is, comments above all.

A library that loads and dumps (ruamel.yaml was tried) moves a new key below the comment of the next section, drops
that comment when the last key before it goes, and lays out lists and braces again. Here the new text goes to the place
that the parser names, and what comes out is parsed and compared with what was wanted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from amplifier_foundation.documents import Document, parse_document
from amplifier_foundation.errors import DocumentError, FoundationError
from amplifier_foundation.files import locked, rewrite_file
from amplifier_foundation.merge import copied
from amplifier_kit.guard.private_files import read_regular

#: Mapping keys and list indexes that lead to a value.
Place = tuple[str | int, ...]

_BOM: Final = b"\xef\xbb\xbf"
_ALIAS: Final = r"\s*:?\s*\*[^\s,\]}]+"


class CannotEdit(Exception):
    """The file is written in a way that these functions do not know."""


@dataclass
class Draft:
    """The text of a file while it is edited, and the data in it."""

    path: Path
    #: Without a byte order mark, lines end in a newline.
    text: str
    data: dict[str, Any]
    #: What to raise when an edit is refused.
    error: type[FoundationError]

    @property
    def document(self) -> Document:
        """Return the draft with the lines of its keys."""
        return parse_document(self.path, self.text.encode())

    def set(self, place: Place, value: Any) -> None:
        """Put a value at a place; mappings on the way are made, an index one past the end appends."""
        try:
            wanted = _assigned(self.data, place, value)
        except CannotEdit as error:
            raise self.error(f"{self.path}: `{_dotted(place)}` cannot be set: {error}") from error
        self._apply(place, lambda: set_in(self.text, place, value), wanted)

    def unset(self, place: Place) -> None:
        """Remove the entry at a place, which exists, and mappings and lists that are empty without it."""
        self._apply(place, lambda: unset_in(self.text, place), _removed(self.data, place))

    def _apply(self, place: Place, edit: Callable[[], str], wanted: dict[str, Any]) -> None:
        """Take the edited text if it reads as wanted."""
        try:
            text = edit()
            data = parse_document(self.path, text.encode()).data
        except (CannotEdit, DocumentError, ValueError) as error:
            raise self._refusal(place) from error
        if _without_empty(data) != _without_empty(wanted):
            raise self._refusal(place)
        self.text, self.data = text, data

    def _refusal(self, place: Place) -> FoundationError:
        return self.error(
            f"{self.document.where(*place)}: `{_dotted(place)}` cannot be changed safely (anchors, or an unusual "
            "layout): edit the file by hand"
        )


@contextmanager
def edit_file(path: Path, error: type[FoundationError], advice: str = "check who owns the folder") -> Iterator[Draft]:
    """Give a draft of a file, which may be missing, and write it when the block ends and it has changed.

    Another process that edits the file waits. A link stays a link; mode, byte order mark and line ends stay. Raises
    `error`, with `advice` when the file cannot be written, and FileBusyError; the file is then as it was.
    """
    target = Path(os.path.realpath(path))
    try:
        with locked(target.with_name(f"{target.name}.lock")):
            before = _read(target)
            written = before.decode("utf-8-sig", "replace")  # the parser reports what is not UTF-8
            text = written.replace("\r\n", "\n")
            draft = Draft(path, text, parse_document(path, before).data, error)
            yield draft
            if draft.text != text:
                is_crlf = written.count("\r\n") * 2 > written.count("\n")
                content = (draft.text.replace("\n", "\r\n") if is_crlf else draft.text).encode()
                rewrite_file(target, _BOM + content if before.startswith(_BOM) else content)
    except DocumentError as fault:
        raise error(str(fault)) from fault
    except OSError as fault:
        raise error(f"{path}: cannot be written: {fault.strerror or fault}: {advice}") from fault


def _read(target: Path) -> bytes:
    try:
        return read_regular(target)
    except FileNotFoundError:
        return b""


def _without_empty(value: Any) -> Any:
    """Return the data without empty sections, which mean the same as missing ones."""
    if isinstance(value, dict):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, {}, [])}
    return [_without_empty(item) for item in value] if isinstance(value, list) else (type(value).__name__, value)


# -- the text --


def set_in(text: str, place: Place, value: Any) -> str:
    """Return the text with `value` at `place`; mappings on the way are made, an index one past the end appends."""
    root = _compose(text)
    if root is None:
        return _with_newline(text) + _emit(_assigned(None, place, value)) + "\n"
    outer = _flow_at(root, place)
    if outer is not None and len(outer[0]) < len(place):
        keys, flow = outer
        rest = place[len(keys) :]
        if flow.value:
            return _replace_flow(text, flow, _assigned(_construct(flow), rest, value))
        return _replace(text, root, keys, _assigned(None, rest, value))
    node = root
    for depth, key in enumerate(place, start=1):
        child = _entry(node, key)
        if child is None:
            return _insert(text, node, key, _assigned(None, place[depth:], value))
        node = child[1]
        if node.tag.endswith(":null") and depth < len(place):
            return _replace(text, root, place[:depth], _assigned(None, place[depth:], value))
    return _replace(text, root, place, value)


def unset_in(text: str, place: Place) -> str:
    """Return the text without the entry at `place`, and without mappings and lists that are then empty."""
    root = _compose(text)
    parent = _descend(root, place[:-1])
    outer = _flow_at(root, place[:-1])
    if outer is not None:
        keys, flow = outer
        return _replace_flow(text, flow, _removed(_construct(flow), place[len(keys) :]))
    start, end = _extent(text, parent, place[-1])
    if len(parent.value) == 1 and len(place) > 1:
        above = _extent(text, _descend(root, place[:-2]), place[-2])
        if "#" not in text[above[0] : start]:
            return unset_in(text, place[:-1])
    return text[:start] + text[end:]


def _replace(text: str, root: Any, place: Place, value: Any) -> str:
    """Replace the value at `place`, which exists."""
    if not place:
        return _replace_flow(text, root, value)
    entry = _entry(_descend(root, place[:-1]), place[-1])
    key, old = entry if entry is not None else _fail("the entry is missing")
    _refuse_alias(key, old)
    start, end = old.start_mark.index, _end(text, old)
    if key is None:  # an item of a list: all of it stands after its dash
        return text[:start] + _indented(_emit(value), old.start_mark.column).lstrip() + text[end:]
    colon = text.index(":", key.end_mark.index) + 1
    if isinstance(value, dict | list) and value:
        block = _indented(_emit(value), key.start_mark.column + 2) + "\n"
        if _is_block(old):
            return text[: _line_start(text, start)] + block + text[_line_end(text, end) :]
        head = text[:colon] + text[end : _line_end(text, end)]
        return _with_newline(head) + block + text[_line_end(text, end) :]
    inline = " " + _emit(value, flow=True)
    if _is_block(old):
        return text[:colon] + inline + text[colon : _line_start(text, start)] + text[_line_end(text, end) :]
    return text[:colon] + inline + text[end:]


def _replace_flow(text: str, node: Any, value: Any) -> str:
    return text[: node.start_mark.index] + _emit(value, flow=True) + text[node.end_mark.index :]


def _insert(text: str, node: Any, key: str | int, value: Any) -> str:
    """Put a new entry at the end of a mapping or list in block style."""
    if isinstance(key, int) and key != len(node.value):
        _fail("the index is past the end of the list")
    at = _line_end(text, _end(text, node))
    fresh = _emit([value] if isinstance(key, int) else {key: value})
    return _with_newline(text[:at]) + _indented(fresh, node.start_mark.column) + "\n" + text[at:]


def _extent(text: str, parent: Any, key: str | int) -> tuple[int, int]:
    """Return where an entry in block style starts and ends: whole lines unless it shares its first line."""
    entry = _entry(parent, key)
    name, node = entry if entry is not None else _fail("the entry is missing")
    if name is None:
        _refuse_alias(None, node)
        first = text.rindex("-", 0, node.start_mark.index + 1)
    else:
        first = name.start_mark.index
    line = _line_start(text, first)
    if not text[line:first].strip():
        return line, _line_end(text, _value_end(text, name, node))
    # The first key of an item of a list stands after the dash: the next key takes its place.
    later = [key.start_mark.index for key, _ in parent.value if key.start_mark.index > first]
    return first, min(later) if later else _fail("it is the only entry of an item in a list")


# -- its nodes --


def _compose(text: str) -> Any:
    import yaml

    return yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _construct(node: Any) -> Any:
    from yaml.constructor import SafeConstructor

    return SafeConstructor().construct_document(node)


def _entry(node: Any, key: str | int) -> tuple[Any, Any] | None:
    """Return the nodes of an entry's key, None in a list, and of its value; None for no such entry."""
    if node.id != ("sequence" if isinstance(key, int) else "mapping"):
        _fail("a value on the way is neither a mapping nor a list")
    if isinstance(key, int):
        return (None, node.value[key]) if key < len(node.value) else None
    return next(((name, value) for name, value in node.value if name.value == key), None)


def _descend(root: Any, place: Place) -> Any:
    node = root
    for key in place:
        entry = _entry(node, key)
        node = entry[1] if entry is not None else _fail("the entry is missing")
    return node


def _flow_at(root: Any, place: Place) -> tuple[Place, Any] | None:
    """Return the first collection on the way that is written in braces or brackets, and the keys to it."""
    node = root
    for depth in range(len(place) + 1):
        if isinstance(node.value, list) and node.flow_style:
            return place[:depth], node
        entry = _entry(node, place[depth]) if depth < len(place) and isinstance(node.value, list) else None
        if entry is None:
            return None
        node = entry[1]
    return None


def _end(text: str, node: Any) -> int:
    """Return the end of a node without the comments after it, which the parser counts in."""
    if _is_block(node):
        last = node.value[-1]
        name, value = last if isinstance(last, tuple) else (None, last)
        if name is None:
            _refuse_alias(None, value, node)
        return _value_end(text, name, value)
    start, end = node.start_mark.index, node.end_mark.index
    return int(start + len(text[start:end].rstrip()))


def _value_end(text: str, name: Any, value: Any) -> int:
    if name is not None and value.start_mark.index < name.start_mark.index:
        alias = re.compile(_ALIAS).match(text, name.end_mark.index)
        return alias.end() if alias is not None else _fail("the alias is missing")
    return _end(text, value)


def _refuse_alias(name: Any, value: Any, parent: Any = None) -> None:
    """Fail for a value that is written elsewhere in the file and only referred to here."""
    before = name if name is not None else parent
    if before is not None and value.start_mark.index < before.start_mark.index:
        _fail("the value is an alias")


def _is_block(node: Any) -> bool:
    return isinstance(node.value, list) and not node.flow_style


# -- data, YAML and lines --


def _assigned(data: Any, place: Place, value: Any) -> Any:
    """Return a copy of data with `value` at `place`; None on the way becomes a mapping or list."""
    if not place:
        return copied(value)
    key, rest = place[0], place[1:]
    if isinstance(key, int):
        items = [] if data is None else data
        if not isinstance(items, list) or key > len(items):
            _fail("a value on the way to it is not a list")
        return [*items[:key], _assigned(items[key] if key < len(items) else None, rest, value), *items[key + 1 :]]
    fields = {} if data is None else data
    if not isinstance(fields, dict):
        _fail("a value on the way to it is not a mapping")
    return {**fields, key: _assigned(fields.get(key), rest, value)}


def _removed(data: Any, place: Place) -> Any:
    """Return a copy of data without the entry at `place`."""
    fresh = target = copied(data)
    for key in place[:-1]:
        target = target[key]
    del target[place[-1]]
    return fresh


def _emit(value: Any, *, flow: bool = False) -> str:
    """Return YAML in block style, or in one line."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)  # lists are indented under their key

    def represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if "\n" in text else None)

    Dumper.add_representer(str, represent_text)
    text = yaml.dump(
        copied(value), Dumper=Dumper, default_flow_style=flow, allow_unicode=True, sort_keys=False, width=2**31
    )
    return text.rstrip("\n").removesuffix("\n...")


def _indented(text: str, columns: int) -> str:
    return "\n".join(" " * columns + line if line else line for line in text.split("\n"))


def _with_newline(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _line_end(text: str, index: int) -> int:
    """Return the start of the next line."""
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1


def _dotted(place: Place) -> str:
    return ".".join(map(str, place))


def _fail(reason: str) -> NoReturn:
    raise CannotEdit(reason)
