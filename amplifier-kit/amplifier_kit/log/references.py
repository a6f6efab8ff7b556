"""Keep lines short: replace large values by references to blobs, and growing lists by the items added to them.

- `{"$blob": "sha256:...", "bytes": N, "preview": "..."}` is the value whose JSON is that blob.
- `{"$list": NAME, "base": NAME, "keep": K, "append": [...]}` is the first K items of the list `base`, then the appended
  ones. Without `keep` it is all items of the base, without `base` none. K may also be a list of steps: a pair [a, b]
  takes the items from a up to b of the base, a number takes that many of the appended ones. `append` may be a blob.
- `{"$literal": {...}}` is an object that only looks like one of these three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from amplifier_core.data import clean
from amplifier_kit.log.blobs import LIMIT, BlobStore
from amplifier_kit.log.message_lists import Delta, ListTracker, is_message_list
from amplifier_kit.log.record import encode

BLOB, LIST, LITERAL = "$blob", "$list", "$literal"
MARKS = frozenset({BLOB, LIST, LITERAL})

#: Every mark begins with this when it is a key; content without it has none.
_MAYBE_MARK = b'"$'


class Shortener:
    """Shorten the values of one log's lines."""

    def __init__(self, blobs: BlobStore, lists: ListTracker) -> None:
        self._blobs = blobs
        self._lists = lists
        #: The lists of the current line.
        self.written: list[Delta] = []

    def shorten(self, fields: dict[str, Any]) -> bytes:
        """Return the JSON of an object with every large value in it replaced by a reference.

        The blobs are on disk when this returns. Raises OSError when one cannot be stored.
        """
        encoded = encode(fields)
        if len(encoded) <= LIMIT and _MAYBE_MARK not in encoded:
            return encoded
        # The object itself stays in the line, however many small values it has.
        try:
            return encode(self._fields(fields))
        except RecursionError:  # not cleaned yet, and nested too deeply
            self.written.clear()
            return encode(self._fields(clean(fields)))

    def confirm(self) -> None:
        """Remember the lists of the line that was just written, so that later ones may refer to them."""
        for delta in self.written:
            self._lists.remember(delta)
        self.written.clear()

    def _short(self, key: str, value: Any) -> Any:
        """Return the value under `key`, or a reference to it."""
        if not isinstance(value, (str, dict, list, tuple)):
            return value
        encoded = encode(value)
        if len(encoded) <= LIMIT and _MAYBE_MARK not in encoded:
            return value
        if isinstance(value, str):
            return value if len(encoded) <= LIMIT else self._blobs.put(value, encoded)
        seen = len(self.written)
        if isinstance(value, dict):
            return self._unless_large(self._fields(value), seen)
        if len(encoded) > LIMIT and is_message_list(key, value):
            return self._list(value)
        return self._unless_large([self._short("", item) for item in value], seen)

    def _fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        short = {key: self._short(key, value) for key, value in fields.items()}
        return short if MARKS.isdisjoint(short) else {LITERAL: short}

    def _unless_large(self, value: Any, seen: int) -> Any:
        """Return a container whose large values are replaced already, or a blob of it if it is still large."""
        encoded = encode(value)
        if len(encoded) <= LIMIT:
            return value
        # Readers of lines do not look for lists inside a blob, so none of them may be the base of another.
        del self.written[seen:]
        return self._blobs.put(value, encoded)

    def _list(self, items: Sequence[Any]) -> dict[str, Any]:
        delta = self._lists.follow(items)
        seen = len(self.written)
        added = [self._short("", items[index]) for index in delta.added]
        short: dict[str, Any] = {LIST: delta.chain.name}
        if delta.base is not None:
            short["base"] = delta.base.name
            if delta.keep != delta.base.length:
                short["keep"] = delta.keep
        short["append"] = self._unless_large(added, seen)
        self.written.append(delta)
        return short


class Expansion:
    """Replace references by their values."""

    def __init__(self, blob: Callable[[str], Any], items: Callable[[dict[str, Any]], list[Any]]) -> None:
        """`blob` returns the value of a blob, `items` the items of a list reference; both raise LookupError."""
        self._blob = blob
        self._items = items

    def full(self, value: Any) -> Any:
        """Return the value with every reference in it resolved; raise LookupError for one that cannot be."""
        if isinstance(value, list):
            return [self.full(item) for item in value]
        if not isinstance(value, dict):
            return value
        if isinstance(name := value.get(BLOB), str):
            return self.full(self._blob(name))
        if isinstance(value.get(LIST), str):
            return [self.full(item) for item in self._items(value)]
        return {key: self.full(item) for key, item in fields_of(value).items()}


def fields_of(value: dict[str, Any]) -> dict[str, Any]:
    """Return the object inside `$literal`, or the object itself."""
    literal = value.get(LITERAL)
    return literal if isinstance(literal, dict) and len(value) == 1 else value


def references(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the references to blobs and lists in a value of a line, outer ones first."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        if isinstance(value.get(BLOB), str):
            yield value
        elif isinstance(value.get(LIST), str):
            yield value
            yield from references(value.get("append"))
        else:
            for item in fields_of(value).values():
                yield from references(item)
