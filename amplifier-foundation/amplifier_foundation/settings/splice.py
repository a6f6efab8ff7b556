"""Change one value in the text of a YAML file and leave every other character as it is, comments above all.

A library that loads and dumps keeps most comments but moves or loses those beside what changes, and lays out the rest
anew. Here the new text is put in at the place that the parser names. Whoever calls checks the outcome: these functions
know the common shapes of files and raise CannotSplice for others.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

from amplifier_foundation.merge import copied

#: Mapping keys and list indexes that lead to a value.
Path = tuple[str | int, ...]

_ALIAS: Final = r"\s*:?\s*\*[^\s,\]}]+"


class CannotSplice(Exception):
    """The file is written in a way that these functions do not know."""


def set_in(text: str, path: Path, value: Any) -> str:
    """Return the text with `value` at `path`; mappings on the way are made, an index one past the end appends."""
    root = _compose(text)
    if root is None:
        return _with_newline(text) + _emit(_nested(path, value)) + "\n"
    return _set(text, root, path, value)


def unset_in(text: str, path: Path) -> str:
    """Return the text without the entry at `path`, and without mappings and lists that are empty for it."""
    root = _compose(text)
    parent = _descend(root, path[:-1])
    outer = _flow_at(root, path[:-1])
    if outer is not None:
        keys, flow = outer
        data = _construct(flow)
        _delete(data, path[len(keys) :])
        return text[: flow.start_mark.index] + _emit_flow(data) + text[flow.end_mark.index :]
    start, end = _extent(text, parent, path[-1])
    if len(parent.value) == 1 and len(path) > 1:
        above = _extent(text, _descend(root, path[:-2]), path[-2])
        if "#" not in text[above[0] : start]:
            return unset_in(text, path[:-1])
    return text[:start] + text[end:]


def _set(text: str, root: Any, path: Path, value: Any) -> str:
    outer = _flow_at(root, path)
    if outer is not None and len(outer[0]) < len(path):
        keys, flow = outer
        if flow.value:
            data = _construct(flow)
            _assign(data, path[len(keys) :], value)
            return text[: flow.start_mark.index] + _emit_flow(data) + text[flow.end_mark.index :]
        return _replace(text, root, keys, _nested(path[len(keys) :], value))
    node = root
    for depth, key in enumerate(path):
        child = _entry(node, key)
        if child is None:
            return _insert(text, node, key, _nested(path[depth + 1 :], value))
        node = child[1]
        if _is_null(node) and depth + 1 < len(path):
            return _replace(text, root, path[: depth + 1], _nested(path[depth + 1 :], value))
    return _replace(text, root, path, value)


def _replace(text: str, root: Any, path: Path, value: Any) -> str:
    """Put a value in place of the one at `path`, which exists."""
    if not path:
        return text[: root.start_mark.index] + _emit_flow(value) + text[root.end_mark.index :]
    parent = _descend(root, path[:-1])
    entry = _entry(parent, path[-1])
    key, old = entry if entry is not None else _fail("an entry is not where it was")
    _refuse_alias(key, old)
    start, end = old.start_mark.index, _end(text, old)
    if key is None:  # an item of a list: all of it stands after its dash
        return text[:start] + _indented(_emit(value), old.start_mark.column).lstrip() + text[end:]
    column = key.start_mark.column
    colon = text.index(":", key.end_mark.index) + 1
    if isinstance(value, dict | list) and value:
        block = _indented(_emit(value), column + 2) + "\n"
        if _is_block(old):
            line = _line_start(text, start)
            return text[:line] + block + text[_line_end(text, end) :]
        head = text[:colon] + text[end : _line_end(text, end)]
        return _with_newline(head) + block + text[_line_end(text, end) :]
    inline = " " + _emit_flow(value)
    if _is_block(old):
        return text[:colon] + inline + text[colon : _line_start(text, start)] + text[_line_end(text, end) :]
    return text[:colon] + inline + text[end:]


def _insert(text: str, node: Any, key: str | int, value: Any) -> str:
    """Put a new entry at the end of a mapping or list in block style."""
    if isinstance(key, int):
        if not _is_sequence(node) or key != len(node.value):
            _fail("there is no list to append to")
        fresh: Any = [value]
    else:
        if not _is_mapping(node):
            _fail("there is no mapping to put a key into")
        fresh = {key: value}
    at = _line_end(text, _end(text, node))
    return _with_newline(text[:at]) + _indented(_emit(fresh), node.start_mark.column) + "\n" + text[at:]


def _extent(text: str, parent: Any, key: str | int) -> tuple[int, int]:
    """Return from where to where an entry in block style reaches, as whole lines if nothing else stands there."""
    entry = _entry(parent, key)
    name, node = entry if entry is not None else _fail("there is no such entry")
    if name is None:
        _refuse_alias(None, node)
        first = text.rindex("-", 0, node.start_mark.index + 1)
    else:
        first = name.start_mark.index
    end = _line_end(text, _value_end(text, name, node))
    line = _line_start(text, first)
    if not text[line:first].strip():
        return line, end
    following = [item[0].start_mark.index for item in parent.value if isinstance(item, tuple)]
    later = [index for index in following if index > first]
    if not later:
        _fail("it is the only entry of an item in a list")
    return first, min(later)


def _compose(text: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _construct(node: Any) -> Any:
    import yaml

    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    finally:
        loader.dispose()


def _entry(node: Any, key: str | int) -> tuple[Any, Any] | None:
    """Return the key's and the value's node, None for no such entry; an item of a list has no key's node."""
    if isinstance(key, int):
        if not _is_sequence(node):
            _fail("there is no list")
        return (None, node.value[key]) if key < len(node.value) else None
    if not _is_mapping(node):
        _fail("there is no mapping")
    return next(((name, value) for name, value in node.value if name.value == key), None)


def _descend(root: Any, path: Path) -> Any:
    node = root
    for key in path:
        entry = _entry(node, key)
        node = entry[1] if entry is not None else _fail("there is no such entry")
    return node


def _flow_at(root: Any, path: Path) -> tuple[Path, Any] | None:
    """Return the first collection on the way that is written in braces or brackets, and the keys to it."""
    node = root
    for depth in range(len(path) + 1):
        if isinstance(node.value, list) and node.flow_style:
            return path[:depth], node
        entry = _entry(node, path[depth]) if depth < len(path) and isinstance(node.value, list) else None
        if entry is None:
            return None
        node = entry[1]
    return None


def _end(text: str, node: Any) -> int:
    """Return where the last character of a node stands: comments after it, which parsers count in, are not its own."""
    if isinstance(node.value, list) and not node.flow_style:
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
        return alias.end() if alias is not None else _fail("an alias is not where it was")
    return _end(text, value)


def _refuse_alias(name: Any, value: Any, parent: Any = None) -> None:
    """Fail for a value that is written elsewhere in the file and only referred to here."""
    before = name if name is not None else parent
    if before is not None and value.start_mark.index < before.start_mark.index:
        _fail("the value is an alias")


def _assign(data: Any, path: Path, value: Any) -> None:
    for depth, key in enumerate(path[:-1]):
        if isinstance(key, int):
            data = data[key] if key < len(data) else _fail("there is no such entry")
        else:
            if data.get(key) is None:
                data[key] = _nested(path[depth + 1 :], value)
                return
            data = data[key]
    if isinstance(path[-1], int) and path[-1] == len(data):
        data.append(value)
    else:
        data[path[-1]] = value


def _delete(data: Any, path: Path) -> None:
    for key in path[:-1]:
        data = data[key]
    del data[path[-1]]


def _nested(path: Path, value: Any) -> Any:
    for key in reversed(path):
        value = [value] if isinstance(key, int) else {key: value}
    return value


def _emit(value: Any) -> str:
    """Return YAML in block style, in lines."""
    return _dump(value, flow=False)


def _emit_flow(value: Any) -> str:
    """Return YAML in one line."""
    return _dump(value, flow=True)


def _dump(value: Any, *, flow: bool) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)  # lists stand inside of their key

    def represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if "\n" in text else None)

    Dumper.add_representer(str, represent_text)
    text = yaml.dump(
        copied(value),
        Dumper=Dumper,
        default_flow_style=flow,
        allow_unicode=True,
        sort_keys=False,
        width=2**31,
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


def _is_mapping(node: Any) -> bool:
    return isinstance(node.value, list) and (not node.value or isinstance(node.value[0], tuple)) and "map" in node.tag


def _is_sequence(node: Any) -> bool:
    return isinstance(node.value, list) and "seq" in node.tag


def _is_block(node: Any) -> bool:
    return isinstance(node.value, list) and not node.flow_style


def _is_null(node: Any) -> bool:
    return bool(node.tag.endswith(":null"))


def _fail(reason: str) -> NoReturn:
    raise CannotSplice(reason)
