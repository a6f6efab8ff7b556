"""Write a growing list of messages as what was added to it since the last time.

A list is known by a hash: the sha256 of the sha256 digests of its items' JSON, one after the other. A request usually
repeats the request before it, apart from the end, where reminders come and go: so a list refers to an earlier one, says
how many of its items it keeps, and appends the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from amplifier_kit.log.encoding import encode

#: Keys under which lists of messages are found, whatever their items look like.
MESSAGE_KEYS = frozenset({"messages", "input", "contents"})

#: How many lists are remembered, and how many items in all of them together.
_CHAINS = 8
_ITEMS = 262_144

#: Bytes of one item's digest.
DIGEST = 32


class Delta(NamedTuple):
    """How a list follows from an earlier one: `base` is its name, None for a list that starts here."""

    name: str
    base: str | None
    #: How many items of the base are kept, and how many it has.
    keep: int
    length: int


class Chain(NamedTuple):
    """A list that was written: its name, and the digests of its items, one after the other."""

    name: str
    digests: bytes

    @property
    def length(self) -> int:
        """How many items the list has."""
        return len(self.digests) // DIGEST


def is_message_list(key: str, items: Sequence[Any]) -> bool:
    """Tell whether a list is one of messages: by the key it is found under, or by the roles of its items."""
    if not items or not all(isinstance(item, dict) for item in items):
        return False
    return key in MESSAGE_KEYS or all("role" in item for item in items)


def chain_of(items: Iterable[Any], start: bytes = b"") -> Chain:
    """Return what a list is known by; `start` holds the digests of the items before these."""
    digests = start + b"".join(sha256(encode(item)).digest() for item in items)
    return Chain(f"sha256:{sha256(digests).hexdigest()}", digests)


class ListTracker:
    """Remember the lists written last, in little memory, and find what a new one has in common with them."""

    def __init__(self) -> None:
        #: The most recent one last.
        self._chains: list[Chain] = []

    def follow(self, items: Sequence[Any]) -> tuple[Delta, Chain]:
        """Return how a list follows from those remembered, and the chain to `remember` once it is written."""
        chain = chain_of(items)
        best, kept = None, 0
        for known in reversed(self._chains):
            common = common_items(known.digests, chain.digests)
            if common > kept:
                best, kept = known, common
        if best is None or 2 * kept < len(items):
            # Little in common: written whole, it spares readers the way back.
            return Delta(chain.name, None, 0, 0), chain
        return Delta(chain.name, best.name, kept, best.length), chain

    def remember(self, chain: Chain) -> None:
        """Remember a list that was written, in place of any that it repeats for the most part."""
        self._chains = [known for known in self._chains if not _replaces(chain, known)]
        self._chains.append(chain)
        while len(self._chains) > _CHAINS or (len(self._chains) > 1 and self._total() > _ITEMS):
            del self._chains[0]

    def remembered(self) -> list[Chain]:
        """Return what is remembered, the most recent last."""
        return list(self._chains)

    def forget(self) -> None:
        """Start anew: the next list is written whole."""
        self._chains.clear()

    def _total(self) -> int:
        return sum(chain.length for chain in self._chains)


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


def _replaces(chain: Chain, known: Chain) -> bool:
    return chain.name == known.name or 2 * common_items(known.digests, chain.digests) > known.length
