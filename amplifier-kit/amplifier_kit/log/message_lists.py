"""Write a growing list of messages as what was added to it since the last time.

A list is known by a hash: the sha256 of the sha256 digests of its items' JSON, one after the other. A request usually
repeats the request before it, apart from the end, where reminders come and go; when the history is compacted, messages
in the middle are dropped or shortened. So a list refers to an earlier one, says what it keeps of it, and appends the
rest.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_kit.guard.private_files import replace_unmasked
from amplifier_kit.log.encoding import decode, digest, encode

#: What is kept of a base: its first items, or a mixture, in order, of ranges of it and numbers of appended items.
Keep = int | list[Any]

#: Keys under which lists of messages are found, whatever their items look like.
MESSAGE_KEYS = frozenset({"messages", "input", "contents"})

#: How many lists are remembered, and how many items in all of them together.
_CHAINS = 8
_ITEMS = 262_144

#: Bytes of one item's digest.
DIGEST = 32


class Chain(NamedTuple):
    """A list that was written: its name, and the digests of its items, one after the other."""

    name: str
    digests: bytes

    @property
    def length(self) -> int:
        """How many items the list has."""
        return len(self.digests) // DIGEST

    def items(self) -> list[bytes]:
        """Return the digests one by one."""
        return [self.digests[at : at + DIGEST] for at in range(0, len(self.digests), DIGEST)]


class Delta(NamedTuple):
    """How a list follows from an earlier one."""

    chain: Chain
    base: Chain | None
    keep: Keep
    #: Which items are appended.
    added: Sequence[int]


def is_message_list(key: str, items: Sequence[Any]) -> bool:
    """Tell whether a list is one of messages: by the key it is found under, or by the roles of its items."""
    if not items or not all(isinstance(item, dict) for item in items):
        return False
    return key in MESSAGE_KEYS or all("role" in item for item in items)


def chain_of(items: Iterable[Any]) -> Chain:
    """Return what a list is known by."""
    return chain_of_digests(sha256(encode(item)).digest() for item in items)


def chain_of_digests(digests: Iterable[bytes]) -> Chain:
    """Return what a list is known by, given the digests of its items."""
    joined = b"".join(digests)
    return Chain(f"sha256:{sha256(joined).hexdigest()}", joined)


def put_together(base: list[Any], keep: Keep | None, added: list[Any]) -> list[Any]:
    """Return the list that keeps of `base` what `keep` says (None: all of it) and takes the rest from `added`.

    Raises ValueError for a `keep` that is not to be understood.
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
            raise ValueError(f"{step!r} says nothing about what a list keeps")
    return whole


class ListTracker:
    """Remember the lists written last, in little memory, and find what a new one has in common with them."""

    def __init__(self) -> None:
        #: The most recent one last.
        self._chains: list[Chain] = []

    def follow(self, items: Sequence[Any]) -> Delta:
        """Return how a list follows from those remembered; `remember` it once it is written."""
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
        """Find the list with most items in common, wherever they are; with few in common, start anew."""
        digests = chain.items()
        best = Delta(chain, None, 0, range(len(digests)))
        for known in reversed(self._chains):
            spliced = _splice(chain, digests, known)
            if len(spliced.added) < len(best.added) and 2 * len(spliced.added) <= len(digests):
                best = spliced
        return best

    def remember(self, delta: Delta) -> None:
        """Remember a list that was written, in place of the one it is largely made of."""
        replaced = {delta.chain.name}
        if delta.base is not None and 2 * (delta.chain.length - len(delta.added)) > delta.base.length:
            replaced.add(delta.base.name)
        self.restore([*(known for known in self._chains if known.name not in replaced), delta.chain])

    def restore(self, chains: list[Chain]) -> None:
        """Remember these, as far as there is room."""
        self._chains = chains[-_CHAINS:]
        while len(self._chains) > 1 and sum(chain.length for chain in self._chains) > _ITEMS:
            del self._chains[0]

    def remembered(self) -> list[Chain]:
        """Return what is remembered, the most recent last."""
        return list(self._chains)

    def forget(self) -> None:
        """Start anew: the next list is written whole."""
        self._chains.clear()


def common_items(first: bytes, second: bytes) -> int:
    """Return with how many equal items two lists begin, given their digests."""
    low, high = 0, min(len(first), len(second)) // DIGEST
    while low < high:
        middle = (low + high + 1) // 2
        if first[low * DIGEST : middle * DIGEST] == second[low * DIGEST : middle * DIGEST]:
            low = middle
        else:
            high = middle - 1
    return low


def _splice(chain: Chain, digests: list[bytes], base: Chain) -> Delta:
    """Return how a list follows from `base`, going through both from front to back."""
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


#: Of the file in which the next run of a session finds the lists that the log holds already. Without it the first
#: list is written whole; a file that does not fit the log beside it is ignored.
_VERSION = 1
_CARRIED = 4


def save_lists(path: Path, log: Path, line: bytes, chains: list[Chain]) -> None:
    """Write down the most recent lists, and that `line` is the last one of the log; raises OSError."""
    content = {
        "version": _VERSION,
        "end": log.stat().st_size,
        "line": len(line),
        "hash": digest(line),
        "lists": [[chain.name, b2a_base64(chain.digests, newline=False).decode()] for chain in chains[-_CARRIED:]],
    }
    replace_unmasked(path, encode(content))  # hashes, which no rule may touch


def load_lists(path: Path, log: Path) -> list[Chain]:
    """Return the lists that were saved, or none when they were not or do not belong to this log."""
    try:
        content = decode(path.read_bytes())
        if content["version"] != _VERSION or not _fits(log, content):
            return []
        return [Chain(name, a2b_base64(digests)) for name, digests in content["lists"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _fits(log: Path, content: dict[str, Any]) -> bool:
    """Tell whether the log still has the line that was its last one when the lists were saved."""
    with log.open("rb") as file:
        file.seek(content["end"] - content["line"] - 1)
        line = file.read(content["line"] + 1)
    return line.endswith(b"\n") and digest(line[:-1]) == content["hash"]
