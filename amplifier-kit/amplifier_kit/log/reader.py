"""Read a log line by line, over all its files, also while it is being written.

Lines of the published logger are understood too: no `seq`, ids and the timestamp inside `data`, `msg` for `message`.
"""

from __future__ import annotations

import io
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from amplifier_kit.log.blobs import BlobStore
from amplifier_kit.log.files import LogFiles, parse
from amplifier_kit.log.record import FACTS, IDS, Record, normal_error
from amplifier_kit.log.references import BLOB, LIST, apply_delta, expand, references
from amplifier_kit.named_tuple import NamedTuple

logger = logging.getLogger(__name__)

_BUFFER = 262_144
_LIST_MARK = b'"$list"'


_LIFTED = frozenset({"timestamp", *IDS, *FACTS})


class LogLine:
    """One line of a log: `record` as it was written, and properties that hide the differences between writers."""

    __slots__ = ("expand", "number", "offset", "path", "raw", "record")

    def __init__(
        self, record: Record, raw: bytes, path: Path, number: int, offset: int, expand: Callable[[Any], Any]
    ) -> None:
        self.record = record
        #: The bytes of the line, without its newline.
        self.raw = raw
        self.path = path
        #: Counted from 1 in its file.
        self.number = number
        self.offset = offset
        #: Returns a value of this line with all references resolved; raises like `resolved`.
        self.expand = expand

    @property
    def event(self) -> str:
        return str(self.record["event"])

    @property
    def seq(self) -> int | None:
        """The line's number in the session; None in published logs."""
        seq = self.record.get("seq")
        return seq if isinstance(seq, int) else None

    @property
    def ts(self) -> str | None:
        """When the event was emitted; published logs may have it only in `data`."""
        emitted = self._payload.get("timestamp") if self.seq is None else None
        found = emitted if isinstance(emitted, str) else self.record.get("ts")
        return found if isinstance(found, str) else None

    @property
    def level(self) -> str:
        """DEBUG, INFO, WARNING or ERROR."""
        return str(self.record.get("lvl") or "INFO")

    @property
    def session_id(self) -> str | None:
        found = self.get("session_id")
        return found if isinstance(found, str) else None

    def get(self, key: str) -> Any:
        """Return an id or a fact of the line, wherever its writer put it; None if it has none."""
        found = self.record.get(key)
        return self._payload.get(key) if found is None and self.seq is None else found

    @property
    def data(self) -> dict[str, Any]:
        """The payload of the event, with references for large values. See `resolved`."""
        if self.seq is not None:
            return self._payload
        return {key: value for key, value in self._payload.items() if key not in _LIFTED}

    @property
    def error(self) -> dict[str, Any] | None:
        """The error with its `message`, and references for large values; None without an error."""
        error = self.record.get("error")
        return None if error is None else normal_error(error)

    def resolved(self) -> dict[str, Any]:
        """Return the payload with all references resolved; raise LookupError if one is missing or damaged."""
        full: dict[str, Any] = self.expand(self.data)
        return full

    def resolved_error(self) -> dict[str, Any] | None:
        """Return the error with all references resolved; raises like `resolved`."""
        full: dict[str, Any] | None = self.expand(self.error)
        return full

    @property
    def _payload(self) -> dict[str, Any]:
        data = self.record.get("data")
        return data if isinstance(data, dict) else {}

    def __repr__(self) -> str:
        return f"<LogLine {self.seq} {self.event} at {self.path.name}:{self.number}>"


#: How many lists are kept in memory: a request is usually based on the one before it.
_RECENT = 4


class Source:
    """An open file of a log, and where in it each list was first written.

    A list refers only to lists of its own file, so that old files can be deleted.
    """

    def __init__(self, path: Path, file: FileIO, files: LogFiles, blobs: BlobStore) -> None:
        self.path = path
        self.file = file
        self._files = files
        self._blobs = blobs
        self._identity = os.fstat(file.fileno())
        self._places: dict[str, int] = {}
        self._recent: OrderedDict[str, list[Any]] = OrderedDict()

    def expand(self, value: Any) -> Any:
        return expand(value, self._blobs.get, self.items)

    def is_at(self, path: Path) -> bool:
        """Return whether this file has the given path now."""
        try:
            return os.path.samestat(self._identity, path.stat())
        except OSError:
            return False

    def note_lists(self, record: Record, offset: int) -> None:
        """Remember where the lists of this record are: in the line at `offset`."""
        for reference in references(record):
            if LIST in reference:
                self._places.setdefault(reference[LIST], offset)

    def items(self, reference: dict[str, Any]) -> list[Any]:
        """Return the items of `{"$list": ...}`, with references for large values.

        Raises LookupError if a base or a blob is missing.
        """
        chain, items = self._bases(reference)
        for link in reversed(chain):
            added = link.get("append")
            if isinstance(added, dict):
                added = self._blobs.get(str(added.get(BLOB)))
            if not isinstance(added, list):
                raise LookupError(f"List {link[LIST]} in {self.path} has no items")
            try:
                items = apply_delta(items, link.get("keep"), added)
            except ValueError as error:
                raise LookupError(f"List {link[LIST]} in {self.path} is damaged: {error}") from error
        self._recent[reference[LIST]] = items
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return items

    def _bases(self, reference: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Any]]:
        """Return the reference and its bases, the last first, and the items that the first of them starts from."""
        chain = [reference]
        seen = set()
        while (base := chain[-1].get("base")) is not None:
            if base in self._recent:
                return chain, self._recent[base]
            if base in seen:
                raise LookupError(f"List {base} in {self.path} refers to itself")
            seen.add(base)
            chain.append(self._find(base))
        return chain, []

    def _find(self, name: str) -> dict[str, Any]:
        """Read the line again that first holds a list."""
        offset = self._places.get(name)
        path = next((path for path in (self.path, *self._files.newest_first()) if self.is_at(path)), None)
        if offset is None or path is None:
            raise LookupError(f"List {name} is missing in {self.path}")
        with path.open("rb") as file:
            file.seek(offset)
            record = parse(file.readline())
        for reference in references(record):
            if reference.get(LIST) == name:
                return reference
        raise LookupError(f"List {name} is no longer where it was in {path}")


class TornLine(NamedTuple):
    """A line without a record: cut off by a crash, or damaged."""

    path: Path
    #: Counted from 1 in its file.
    number: int
    offset: int
    length: int


class LogReader:
    """Read a log and keep the position: every `poll` yields the lines added since the last one."""

    def __init__(
        self, location: Path | str, on_torn: Callable[[TornLine], object] | None = None, *, only: bytes = b""
    ) -> None:
        """Read the log of a session's folder, or a file; `on_torn` is called for lines without a record.

        Without `on_torn` they are logged as warnings. A missing log has no lines. Whole lines without the bytes `only`
        are skipped unparsed, which is many times as fast; lists in the others cannot be resolved then.
        """
        self._only = only
        self._files = LogFiles.at(location)
        self._on_torn = on_torn or _warn
        self.blobs = BlobStore(self._files.blobs)
        self._source: Source | None = None
        #: The number of the last rotated file that was read to its end.
        self._done = 0
        self._number = 0
        self._offset = 0

    def poll(self) -> Iterator[LogLine]:
        """Yield the new lines; an unfinished last one waits for the next call."""
        while True:
            source = self._source or self._open_next()
            if source is None:
                return
            yield from self._rest_of(source)
            number = self._number_of(source)
            if number is None:
                return
            # Lines may have been added just before the file was rotated.
            yield from self._rest_of(source)
            self.report_unfinished()
            self._done = number
            self.close()

    def report_unfinished(self) -> None:
        """Report an unfinished last line, if there is one."""
        if self._source is None:
            return
        self._source.file.seek(self._offset)
        rest = self._source.file.read()
        if rest.strip(b"\n"):
            self._on_torn(TornLine(self._source.path, self._number + 1, self._offset, len(rest)))

    def close(self) -> None:
        """Close the current file; a later poll starts with the first file that was not read to its end."""
        source, self._source = self._source, None
        if source is not None:
            source.file.close()

    @property
    def starts_late(self) -> bool:
        """Whether the first files of the log were deleted."""
        numbers = self._files.numbers()
        return bool(numbers) and numbers[0] > 1

    def _open_next(self) -> Source | None:
        """Open the next file, if there is one."""
        files = self._files
        while True:
            number = next((number for number in files.numbers() if number > self._done), None)
            path = files.active if number is None else files.rotated(number)
            try:
                file = FileIO(path, "rb")
            except FileNotFoundError:
                if number is None:
                    return None
                self._done = number  # deleted just now
                continue
            if number is None and any(number > self._done for number in files.numbers()):
                file.close()  # rotated meanwhile: the rotated file comes first
                continue
            self._source = Source(path, file, files, self.blobs)
            self._number = self._offset = 0
            return self._source

    def _number_of(self, source: Source) -> int | None:
        """Return the number of the current file if it was rotated, None while it is being written."""
        for number in self._files.numbers():
            path = self._files.rotated(number)
            if number > self._done and source.is_at(path):
                source.path = path
                return number
        return None

    def _rest_of(self, source: Source) -> Iterator[LogLine]:
        # A new buffer every time: the writer may have removed the partial line at the end of the last one.
        source.file.seek(self._offset)
        buffer = io.BufferedReader(source.file, _BUFFER)
        try:
            while raw := buffer.readline():
                ended = raw.endswith(b"\n")
                if ended and self._only not in raw:
                    self._offset += len(raw)
                    self._number += 1
                    continue
                record = parse(raw)
                if record is None and not ended:
                    return  # being written, or never finished
                number, offset = self._number + 1, self._offset
                self._offset += len(raw)
                self._number += ended
                if record is None:
                    if raw != b"\n":
                        self._on_torn(TornLine(source.path, number, offset, len(raw)))
                    continue
                if _LIST_MARK in raw:
                    source.note_lists(record, offset)
                yield LogLine(record, raw.removesuffix(b"\n"), source.path, number, offset, source.expand)
        finally:
            if not source.file.closed:
                buffer.detach()


def read_log(
    location: Path | str, on_torn: Callable[[TornLine], object] | None = None, *, only: bytes = b""
) -> Iterator[LogLine]:
    """Yield the lines of a log, the oldest first, over all its files; torn lines are reported and skipped.

    `only` limits it to lines that contain these bytes; see `LogReader`.
    """
    reader = LogReader(location, on_torn, only=only)
    try:
        yield from reader.poll()
        reader.report_unfinished()
    finally:
        reader.close()


def _warn(torn: TornLine) -> None:
    logger.warning("Skipped %s:%d: %d bytes without a record", torn.path, torn.number, torn.length)
