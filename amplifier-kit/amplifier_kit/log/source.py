"""One file of a log that is being read: found again when it is renamed, and searched for the lists in its lines."""

from __future__ import annotations

import os
from collections import OrderedDict
from io import FileIO
from pathlib import Path
from typing import Any

from amplifier_kit.log.blobs import BlobStore
from amplifier_kit.log.files import LogFiles, parse
from amplifier_kit.log.lists import put_together
from amplifier_kit.log.record import Record
from amplifier_kit.log.spine import BLOB, LIST, Expansion, references

#: How many lists are kept in memory, so that one request is made from the one before it.
_RECENT = 4


class Source:
    """A file that is open, its place in the log, and where in it each list was first written.

    A list refers only to lists of its own file, so that files can be deleted, the oldest first.
    """

    def __init__(self, path: Path, file: FileIO, files: LogFiles, blobs: BlobStore) -> None:
        self.path = path
        self.file = file
        self._files = files
        self._blobs = blobs
        self._identity = os.fstat(file.fileno())
        self._places: dict[str, int] = {}
        self._recent: OrderedDict[str, list[Any]] = OrderedDict()
        self.expansion = Expansion(blobs.get, self.items)

    def is_at(self, path: Path) -> bool:
        """Tell whether this is the file that has the given name now."""
        try:
            return os.path.samestat(self._identity, path.stat())
        except OSError:
            return False

    def note_lists(self, record: Record, offset: int) -> None:
        """Remember that the line at `offset` holds this record, for the lists in it."""
        for reference in references(record):
            if LIST in reference:
                self._places.setdefault(reference[LIST], offset)

    def items(self, reference: dict[str, Any]) -> list[Any]:
        """Return the items that `{"$list": ...}` stands for, short themselves.

        Raises LookupError when a list before it, or a blob, is missing.
        """
        chain, items = self._way_back(reference)
        for link in reversed(chain):
            added = link.get("append")
            if isinstance(added, dict):
                added = self._blobs.get(str(added.get(BLOB)))
            if not isinstance(added, list):
                raise LookupError(f"List {link[LIST]} in {self.path} has no items")
            try:
                items = put_together(items, link.get("keep"), added)
            except ValueError as error:
                raise LookupError(f"List {link[LIST]} in {self.path} is damaged: {error}") from error
        self._recent[reference[LIST]] = items
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return items

    def _way_back(self, reference: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Any]]:
        """Return the references to put together, the last first, and the items that they start from."""
        chain = [reference]
        passed = set()
        while (base := chain[-1].get("base")) is not None:
            if base in self._recent:
                return chain, self._recent[base]
            if base in passed:
                raise LookupError(f"List {base} in {self.path} refers to itself")
            passed.add(base)
            chain.append(self._find(base))
        return chain, []

    def _find(self, name: str) -> dict[str, Any]:
        """Read the line again in which a list was first written."""
        offset = self._places.get(name)
        path = next((path for path in (self.path, *self._files.newest_first()) if self.is_at(path)), None)
        if offset is None or path is None:
            raise LookupError(f"List {name} is nowhere in {self.path}")
        with path.open("rb") as file:
            file.seek(offset)
            record = parse(file.readline())
        for reference in references(record):
            if reference.get(LIST) == name:
                return reference
        raise LookupError(f"List {name} is no longer where it was in {path}")
