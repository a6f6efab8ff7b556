"""Read a log, line by line, over all its files, while it is being written or long after."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from amplifier_kit.log.blobs import BlobStore
from amplifier_kit.log.files import LogFiles, parse
from amplifier_kit.log.line import LogLine
from amplifier_kit.log.source import Source

logger = logging.getLogger(__name__)

_BUFFER = 262_144
_LIST_MARK = b'"$list"'


class TornLine(NamedTuple):
    """A line that holds no record: a crash cut it short, or something else damaged it."""

    path: Path
    #: Counted from 1 in its file.
    number: int
    offset: int
    length: int


class LogReader:
    """Read a log and keep the place: every `poll` gives the lines that have come since the last one."""

    def __init__(self, location: Path | str, on_torn: Callable[[TornLine], object] | None = None) -> None:
        """Read the log of a session's folder, or of a file; `on_torn` is told of lines that hold no record.

        Without `on_torn` they are logged as warnings. A log that does not exist has no lines.
        """
        self._files = LogFiles.at(location)
        self._on_torn = on_torn or _warn
        self.blobs = BlobStore(self._files.blobs)
        self._source: Source | None = None
        #: The number of the last rotated file that was read to its end.
        self._done = 0
        self._number = 0
        self._offset = 0

    def poll(self) -> Iterator[LogLine]:
        """Yield the lines that are there and were not yielded yet; a last one that is unfinished waits."""
        while True:
            source = self._source or self._open_next()
            if source is None:
                return
            yield from self._rest_of(source)
            number = self._number_of(source)
            if number is None:
                return
            # Nothing is added to a rotated file, but something perhaps was just before it became one.
            yield from self._rest_of(source)
            self.report_unfinished()
            self._done = number
            self.close()

    def report_unfinished(self) -> None:
        """Report what follows the last whole line, if anything does."""
        if self._source is None:
            return
        self._source.file.seek(self._offset)
        rest = self._source.file.read()
        if rest.strip(b"\n"):
            self._on_torn(TornLine(self._source.path, self._number + 1, self._offset, len(rest)))

    def close(self) -> None:
        """Close the file at hand; a later poll starts with the first file that was not read to its end."""
        source, self._source = self._source, None
        if source is not None:
            source.file.close()

    @property
    def starts_late(self) -> bool:
        """Whether the first files of the log were deleted."""
        numbers = self._files.numbers()
        return bool(numbers) and numbers[0] > 1

    def _open_next(self) -> Source | None:
        """Open the file after those that were read, if there is one."""
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
                file.close()  # rotated between the two looks: the one set aside comes first
                continue
            self._source = Source(path, file, files, self.blobs)
            self._number = self._offset = 0
            return self._source

    def _number_of(self, source: Source) -> int | None:
        """Return the number under which the file at hand was set aside, None while it is the one being written."""
        for number in self._files.numbers():
            path = self._files.rotated(number)
            if number > self._done and source.is_at(path):
                source.path = path
                return number
        return None

    def _rest_of(self, source: Source) -> Iterator[LogLine]:
        # A fresh buffer every time: a writer may have taken back the half line at the end of the last one.
        source.file.seek(self._offset)
        buffer = io.BufferedReader(source.file, _BUFFER)
        try:
            while raw := buffer.readline():
                ended = raw.endswith(b"\n")
                record = parse(raw)
                if record is None and not ended:
                    return  # it is being written, or was never finished
                number, offset = self._number + 1, self._offset
                self._offset += len(raw)
                self._number += ended
                if record is None:
                    if raw != b"\n":
                        self._on_torn(TornLine(source.path, number, offset, len(raw)))
                    continue
                if _LIST_MARK in raw:
                    source.note_lists(record, offset)
                yield LogLine(record, raw.removesuffix(b"\n"), source.path, number, offset, source.expansion)
        finally:
            if not source.file.closed:
                buffer.detach()


def read_log(location: Path | str, on_torn: Callable[[TornLine], object] | None = None) -> Iterator[LogLine]:
    """Yield the lines of a log, the oldest first, over all its files; a torn line is reported and skipped."""
    reader = LogReader(location, on_torn)
    try:
        yield from reader.poll()
        reader.report_unfinished()
    finally:
        reader.close()


def _warn(torn: TornLine) -> None:
    logger.warning("Skipped %s:%d: %d bytes that hold no record", torn.path, torn.number, torn.length)
