"""Keep lines short: replace large values by references to blobs, and growing lists by the items added to them.

- `{"$blob": "sha256:...", "bytes": N, "preview": "..."}` is the value whose JSON is that blob.
- `{"$list": NAME, "base": NAME, "keep": K, "append": [...]}` is the first K items of the list `base`, then the appended
  ones. Without `keep` it is all items of the base, without `base` none. K may also be a list of steps: a pair [a, b]
  takes the items from a up to b of the base, a number takes that many of the appended ones. `append` may be a blob.
- `{"$literal": {...}}` is an object that only looks like one of these three.

A list is named by a hash: the sha256 of the concatenated sha256 digests of its items' JSON. A request usually repeats
the request before it, except at the end, where reminders come and go; compaction drops or shortens messages in the
middle. So a list refers to an earlier one, says which items it keeps, and appends the rest.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from amplifier_kit.guard.private_files import replace_unmasked
from amplifier_kit.log.blobs import LIMIT, BlobStore
from amplifier_kit.log.record import decode, digest, encode
from amplifier_kit.named_tuple import NamedTuple

BLOB, LIST, LITERAL = "$blob", "$list", "$literal"
MARKS = frozenset({BLOB, LIST, LITERAL})

#: Every mark begins with this when it is a key; content without it has none.
_MAYBE_MARK = b'"$'


# -- references in lines --


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
        return encode(self._fields(fields))

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


def expand(value: Any, blob: Callable[[str], Any], items: Callable[[dict[str, Any]], list[Any]]) -> Any:
    """Return a value with every reference in it resolved; raise LookupError for one that cannot be.

    `blob` returns the value of a blob, `items` the items of a list reference; both raise LookupError.
    """
    if isinstance(value, list):
        return [expand(item, blob, items) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(name := value.get(BLOB), str):
        return expand(blob(name), blob, items)
    if isinstance(value.get(LIST), str):
        return [expand(item, blob, items) for item in items(value)]
    return {key: expand(item, blob, items) for key, item in fields_of(value).items()}


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


# -- growing lists --

#: Which items of a base are kept: the first ones, or a sequence of ranges and numbers of appended items.
Keep = int | list[Any]

#: Keys whose lists are messages, whatever their items look like.
MESSAGE_KEYS = frozenset({"messages", "input", "contents"})

#: How many lists are remembered, and how many items in all of them together.
_CHAINS = 8
_ITEMS = 262_144

#: Bytes of one item's digest.
DIGEST = 32


class Chain(NamedTuple):
    """A list that was written: its name, and the concatenated digests of its items."""

    name: str
    digests: bytes

    @property
    def length(self) -> int:
        return len(self.digests) // DIGEST

    def items(self) -> list[bytes]:
        return [self.digests[at : at + DIGEST] for at in range(0, len(self.digests), DIGEST)]


class Delta(NamedTuple):
    """How a list follows from an earlier one."""

    chain: Chain
    base: Chain | None
    keep: Keep
    #: The indexes of the appended items.
    added: Sequence[int]


def is_message_list(key: str, items: Sequence[Any]) -> bool:
    """Return whether a list holds messages, judging by its key or by the roles of its items."""
    if not items or not all(isinstance(item, dict) for item in items):
        return False
    return key in MESSAGE_KEYS or all("role" in item for item in items)


def chain_of(items: Iterable[Any]) -> Chain:
    """Return the name and digests of a list."""
    return chain_of_digests(sha256(encode(item)).digest() for item in items)


def chain_of_digests(digests: Iterable[bytes]) -> Chain:
    """Return the name and digests of a list, given the digests of its items."""
    joined = b"".join(digests)
    return Chain(f"sha256:{sha256(joined).hexdigest()}", joined)


def apply_delta(base: list[Any], keep: Keep | None, added: list[Any]) -> list[Any]:
    """Return the items of `base` that `keep` selects (None: all), combined with `added`.

    Raises ValueError for an invalid `keep`.
    """
    if keep is None:
        return [*base, *added]
    if isinstance(keep, int):
        return [*base[:keep], *added]
    whole: list[Any] = []
    taken = 0
    for step in keep:
        if isinstance(step, int):
            whole += added[taken : taken + step]
            taken += step
        elif isinstance(step, list) and len(step) == 2 and all(isinstance(end, int) for end in step):
            whole += base[step[0] : step[1]]
        else:
            raise ValueError(f"invalid step {step!r} in `keep`: expected a number or a pair of numbers")
    return whole


class ListTracker:
    """Remember the last lists by their digests, and find the items that a new one shares with them."""

    def __init__(self) -> None:
        #: The most recent last.
        self._chains: list[Chain] = []

    def follow(self, items: Sequence[Any]) -> Delta:
        """Return how a list follows from the remembered ones; `remember` it once it is written."""
        chain = chain_of(items)
        base, common = None, 0
        for known in reversed(self._chains):
            shared = common_items(known.digests, chain.digests)
            if shared > common:
                base, common = known, shared
        if 2 * common >= len(items):
            return Delta(chain, base, common, range(common, len(items)))
        return self._splice(chain)

    def _splice(self, chain: Chain) -> Delta:
        """Use the list with most items in common, wherever they are; with few in common, none."""
        digests = chain.items()
        best = Delta(chain, None, 0, range(len(digests)))
        for known in reversed(self._chains):
            spliced = _splice(chain, digests, known)
            if len(spliced.added) < len(best.added) and 2 * len(spliced.added) <= len(digests):
                best = spliced
        return best

    def remember(self, delta: Delta) -> None:
        """Remember a list that was written, instead of a base that it largely contains."""
        replaced = {delta.chain.name}
        if delta.base is not None and 2 * (delta.chain.length - len(delta.added)) > delta.base.length:
            replaced.add(delta.base.name)
        self.restore([*(known for known in self._chains if known.name not in replaced), delta.chain])

    def restore(self, chains: list[Chain]) -> None:
        """Remember these, the most recent ones if there are too many."""
        self._chains = chains[-_CHAINS:]
        while len(self._chains) > 1 and sum(chain.length for chain in self._chains) > _ITEMS:
            del self._chains[0]

    def remembered(self) -> list[Chain]:
        return list(self._chains)

    def forget(self) -> None:
        """Forget all lists: the next one is written whole."""
        self._chains.clear()


def common_items(first: bytes, second: bytes) -> int:
    """Return how many items at the start of two lists are equal, given their digests."""
    low, high = 0, min(len(first), len(second)) // DIGEST
    while low < high:
        middle = (low + high + 1) // 2
        if first[low * DIGEST : middle * DIGEST] == second[low * DIGEST : middle * DIGEST]:
            low = middle
        else:
            high = middle - 1
    return low


def _splice(chain: Chain, digests: list[bytes], base: Chain) -> Delta:
    """Return how a list follows from `base`, matching items from front to back."""
    places: dict[bytes, list[int]] = {}
    for place, item in enumerate(base.items()):
        places.setdefault(item, []).append(place)
    keep: list[Any] = []
    added: list[int] = []
    reached = 0
    for index, item in enumerate(digests):
        found = places.get(item, ())
        at = bisect_left(found, reached)
        if at == len(found):
            added.append(index)
            if keep and isinstance(keep[-1], int):
                keep[-1] += 1
            else:
                keep.append(1)
            continue
        place = found[at]
        if keep and isinstance(keep[-1], list) and keep[-1][1] == place:
            keep[-1][1] = place + 1
        else:
            keep.append([place, place + 1])
        reached = place + 1
    return Delta(chain, base, keep, added)


# -- lists that the next run of the session continues --

#: The version of the file with the lists of a log, for the next run of its session. Without the file, the first list is
#: written whole; a file that does not match the log is ignored.
_VERSION = 1
_CARRIED = 4


def save_lists(path: Path, log: Path, line: bytes, chains: list[Chain]) -> None:
    """Save the most recent lists, and `line` as the last one of the log; raises OSError."""
    content = {
        "version": _VERSION,
        "end": log.stat().st_size,
        "line": len(line),
        "hash": digest(line),
        "lists": [[chain.name, b2a_base64(chain.digests, newline=False).decode()] for chain in chains[-_CARRIED:]],
    }
    replace_unmasked(path, encode(content))  # hashes, which redaction must not change


def load_lists(path: Path, log: Path) -> list[Chain]:
    """Return the saved lists; empty if this log has none."""
    try:
        content = decode(path.read_bytes())
        if content["version"] != _VERSION or not _matches(log, content):
            return []
        return [Chain(name, a2b_base64(digests)) for name, digests in content["lists"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _matches(log: Path, content: dict[str, Any]) -> bool:
    """Return whether the log still has the line that was its last one when the lists were saved."""
    with log.open("rb") as file:
        file.seek(content["end"] - content["line"] - 1)
        line = file.read(content["line"] + 1)
    return line.endswith(b"\n") and digest(line[:-1]) == content["hash"]
