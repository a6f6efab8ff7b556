"""Read YAML files, and Markdown files with YAML front matter, and record the line of every entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any

from amplifier_foundation.errors import DocumentError
from amplifier_kit.guard.private_files import read_regular
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

_FENCE = "---"
#: How deep values may be nested, and how many there may be in one file.
_MAX_DEPTH = 100
_MAX_VALUES = 1_000_000
#: What the library raises for a text that is not the date, number or boolean its form or tag promises.
_NOT_AS_PROMISED = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError)


class Unreadable(NamedTuple):
    """Takes the place of a list entry that cannot be read: the line and the reason."""

    line: int
    message: str


class Document(FrozenStruct):
    """One parsed file: the mapping in it, the text after the front matter, and the line of each key."""

    path: Path
    data: dict[str, Any] = field(default_factory=dict)
    #: The Markdown after the front matter, stripped; empty for YAML files.
    body: str = ""
    _node: Any = None
    _first_line: int = 1
    #: The line on which the body starts.
    body_line: int = 1
    #: How many values it has, with anchors followed.
    size: int = 0

    def line(self, *keys: str | int) -> int:
        """Return the line of the entry that `keys` lead to, or of the nearest existing one around it."""
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
    """Return the document in `path`; a byte order mark and any line ends are accepted.

    Raises DocumentError, naming file and line, for a file that is missing, unreadable, not UTF-8, malformed, not a
    mapping, that has a key twice in one mapping, that contains itself, or that is nested too deep or too large.
    """
    try:
        content = read_regular(path)
    except FileNotFoundError as error:
        raise DocumentError(f"{path}: there is no such file") from error
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror or error}") from error
    return parse_document(path, content)


def parse_document(path: Path, content: bytes, *, each_of: str | None = None) -> Document:
    """Return the document in `content`; `path` says which kind it is and is named in errors.

    Entries of the list under the key `each_of` are read one by one: one that cannot be read becomes `Unreadable`.
    Raises DocumentError for every other problem.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentError(f"{path}:{line}: not UTF-8 ({error.reason}): save the file as UTF-8") from error
    front, body, first_line = _split(path, text) if path.suffix.lower() == ".md" else (text, "", 1)
    data, node, size = _parse(path, front, first_line, each_of)
    return Document(path, data, body.strip(), node, first_line, _line_of_body(text, body), size)


def _line_of_body(text: str, body: str) -> int:
    """Return the line of the first word of the body."""
    blank = body[: len(body) - len(body.lstrip())]
    return len(text[: len(text) - len(body)].splitlines()) + len(f"{blank}x".splitlines())


def _split(path: Path, text: str) -> tuple[str, str, int]:
    """Return front matter, body, and the line the front matter starts at."""
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].strip() != _FENCE:
        return "", text, 1
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip() == _FENCE:
            return "".join(lines[1:index]), "".join(lines[index + 1 :]), 2
    raise DocumentError(f"{path}:1: the front matter opened by '---' is never closed: add a line '---' after it")


def _parse(path: Path, text: str, first_line: int, each_of: str | None) -> tuple[dict[str, Any], Any, int]:
    import yaml

    data, loader, size = None, None, 0
    unreadable: dict[int, Unreadable] = {}
    try:
        _check_depth(text)
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        node = loader.get_single_node()
        if node is not None:
            entries = _Entries(node, each_of)
            entries.check()
            size = _check_nodes(node, set(), {})
            data, unreadable = entries.construct(loader), entries.unreadable
    except _Fault as fault:
        raise DocumentError(f"{path}:{first_line + fault.line}: {fault}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = first_line + (mark.line if mark is not None else 0)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise DocumentError(f"{path}:{line}: malformed YAML: {problem}") from error
    except _NOT_AS_PROMISED as error:
        raise DocumentError(f"{path}:{first_line}: malformed YAML: {type(error).__name__}: {error}") from error
    finally:
        if loader is not None:
            loader.dispose()
    if data is None:
        return {}, None, 0
    if not isinstance(data, dict):
        raise DocumentError(f"{path}:{first_line}: must be a mapping of keys, got {type(data).__name__}")
    for index, wrong in unreadable.items():
        data[each_of][index] = wrong._replace(line=first_line + wrong.line)
    return data, node, size


class _Entries:
    """The entries of a list; one that cannot be read is replaced, and the others are read as they are."""

    def __init__(self, root: Any, key: str | None) -> None:
        child = _child(root, key) if key is not None else None
        is_list = child is not None and child[1].id == "sequence"
        self._root = root
        self._nodes: list[Any] = child[1].value if child is not None and is_list else []
        #: By their index; lines count from 0.
        self.unreadable: dict[int, Unreadable] = {}

    def check(self) -> None:
        """Replace entries that are valid YAML and certainly a mistake."""
        sizes: dict[int, int] = {}
        self._try_each(lambda node: _check_nodes(node, {id(self._root)}, sizes))

    def construct(self, loader: Any) -> Any:
        """Return the values of the whole file; only when that fails, try the entries one by one."""
        import yaml
        from yaml.constructor import SafeConstructor

        try:
            return loader.construct_document(self._root)
        except (yaml.YAMLError, *_NOT_AS_PROMISED):
            # A loader that has failed cannot be used again.
            self._try_each(lambda node: SafeConstructor().construct_document(node))
            return SafeConstructor().construct_document(self._root)

    def _try_each(self, read: Callable[[Any], object]) -> None:
        import yaml

        for index, node in enumerate(self._nodes):
            line, message = node.start_mark.line, ""
            try:
                read(node)
            except _Fault as fault:
                line, message = fault.line, str(fault)
            except yaml.YAMLError as error:
                line = getattr(getattr(error, "problem_mark", None), "line", line)
                message = f"malformed YAML: {getattr(error, 'problem', None) or error}"
            except _NOT_AS_PROMISED as error:
                message = f"malformed YAML: {type(error).__name__}: {error}"
            if message:
                self.unreadable[index] = Unreadable(line, message)
                self._nodes[index] = yaml.ScalarNode("tag:yaml.org,2002:null", "", node.start_mark, node.end_mark)


class _Fault(Exception):
    """Something that is valid YAML and certainly a mistake."""

    def __init__(self, text: str, mark: Any) -> None:
        super().__init__(text)
        self.line: int = mark.line


def _check_depth(text: str) -> None:
    """Raise _Fault for values that are nested too deep: constructing them would overflow the stack.

    A value cannot be nested deeper than the brackets of the file and the columns of a line allow, so most files need
    no second pass.
    """
    columns = max((len(line) for line in text.splitlines()), default=0)
    if text.count("[") + text.count("{") + columns <= _MAX_DEPTH:
        return
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise _Fault(f"values are nested more than {_MAX_DEPTH} levels deep", event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_nodes(node: Any, above: set[int], sizes: dict[int, int]) -> int:
    """Return how many values a node has, with anchors followed.

    Raises _Fault for a key that is a list or mapping or is given twice, a node that contains itself, and anchors that
    expand to too many values.
    """
    if not isinstance(node.value, list):
        return 1
    if id(node) in above:
        raise _Fault("a value that contains itself", node.start_mark)
    if id(node) in sizes:
        return sizes[id(node)]
    above.add(id(node))
    size = 1
    seen: set[tuple[str, str]] = set()
    for item in node.value:
        key, value = item if isinstance(item, tuple) else (None, item)
        if key is not None:
            if isinstance(key.value, list):
                raise _Fault("a list or a mapping cannot be a key", key.start_mark)
            if key.tag.endswith(":merge") and not _is_mergeable(value):
                raise _Fault("`<<` takes the keys of a mapping, or of a list of mappings", key.start_mark)
            name = (key.tag, key.value)
            if name in seen and not key.tag.endswith(":merge"):
                raise _Fault(f"the key {key.value!r} is given twice: keep one of them", key.start_mark)
            seen.add(name)
        size += _check_nodes(value, above, sizes)
        if size > _MAX_VALUES:
            raise _Fault(f"anchors expand to more than {_MAX_VALUES} values: use fewer of them", node.start_mark)
    above.discard(id(node))
    sizes[id(node)] = size
    return size


def _is_mergeable(node: Any) -> bool:
    each = node.value if node.id == "sequence" else [node]
    return all(one.id == "mapping" for one in each)


def _child(node: Any, key: str | int) -> tuple[Any, Any] | None:
    """Return the mark and the node of one entry, None when it is missing."""
    entries = node.value if node is not None and isinstance(node.value, list) else []
    if entries and not isinstance(entries[0], tuple):
        is_index = isinstance(key, int) and 0 <= key < len(entries)
        return (entries[key].start_mark, entries[key]) if is_index else None  # type: ignore[index]
    for name, value in entries:
        if name.value == key or (not isinstance(key, str) and _means(name, key)):
            return name.start_mark, value
    return None


def _means(node: Any, key: Any) -> bool:
    """Return whether a key that is not text, like `on`, `7` and `null`, has this value."""
    from yaml.constructor import ConstructorError, SafeConstructor

    try:
        meant = SafeConstructor().construct_object(node)
    except (ConstructorError, ValueError):
        return False
    return type(meant) is type(key) and bool(meant == key)
