"""Copy the beginning of one session's log into another's, so that the copy stands for itself.

Lines keep their numbers and their payloads; they get the new session's id, and where they carry the hash of the line
before, the right one again. Large values are linked, not copied: a blob never changes, and lives as long as anybody
has a name for it.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_kit.log import LogLine

__all__ = ["CopiedEvents", "copy_events"]


@dataclass
class CopiedEvents:
    """Say what was copied, and what was missing in the original."""

    lines: int = 0
    blobs: int = 0
    problems: list[str] = field(default_factory=list)


def copy_events(source: Path, target: Path, lines: int, *, session_id: str, parent_id: str) -> CopiedEvents:
    """Write the first `lines` lines of the log in folder `source` to a new log in folder `target`.

    A blob that is missing is reported, and missing in the copy too. Raises OSError when something cannot be written.
    """
    from amplifier_kit.log import LogReader
    from amplifier_kit.log.files import LogFiles

    files = LogFiles(target)
    copied = CopiedEvents()
    blobs = _Blobs(LogFiles(source).blobs, files.blobs, copied)
    layout = _Layout(session_id, parent_id)
    descriptor = os.open(files.active, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        # Lines that hold no record were reported by whoever counted the others.
        with closing(LogReader(source, lambda torn: None)) as original:
            for line in islice(original.poll(), lines):
                file.write(layout.line(line) + b"\n")
                copied.lines += 1
                if b'"$blob"' in line.raw:
                    blobs.take(line.record)
        file.flush()
        os.fsync(file.fileno())
    return copied


class _Layout:
    """Lay out line after line of the copy."""

    def __init__(self, session_id: str, parent_id: str) -> None:
        self._session_id = session_id
        self._parent_id = parent_id
        self._before = b""
        self._seq = 0

    def line(self, line: LogLine) -> bytes:
        """Return the line as the copy has it."""
        record = dict(line.record)
        data = record.get("data")
        if isinstance(data, dict) and "session_id" in data:  # where published logs have it
            record["data"] = {**data, "session_id": self._session_id}
        if "session_id" in record or not isinstance(data, dict) or "session_id" not in data:
            record["session_id"] = self._session_id
        record["parent_session_id"] = self._parent_id
        seq = line.seq
        self._before = self._unnumbered(record) if seq is None else self._numbered(record, seq)
        return self._before

    def _numbered(self, record: dict[str, Any], seq: int) -> bytes:
        from amplifier_kit.log.encoding import digest, encode
        from amplifier_kit.log.record import compose

        seq = max(seq, self._seq + 1)
        # Lines that the original has lost, or that were deleted with its oldest files, are accounted for.
        dropped, self._seq = seq - self._seq - 1, seq
        prev = digest(self._before) if "prev" in record else None
        return compose(record, seq, dropped, prev, lambda: "", encode)

    def _unnumbered(self, record: dict[str, Any]) -> bytes:
        from amplifier_kit.log.encoding import encode

        return b"{%b}" % b", ".join(b"%b: %b" % (encode(key), encode(value)) for key, value in record.items())


class _Blobs:
    """Bring the blobs that lines refer to, directly or through other blobs, from one folder to another."""

    def __init__(self, source: Path, target: Path, copied: CopiedEvents) -> None:
        from amplifier_kit.log import BlobStore

        self._source = BlobStore(source)
        self._target = BlobStore(target)
        self._copied = copied
        self._seen: set[str] = set()

    def take(self, value: Any) -> None:
        """Take over everything that a value refers to."""
        from amplifier_kit.log import BlobError
        from amplifier_kit.log.encoding import decode
        from amplifier_kit.log.references import BLOB, references

        waiting = [value]
        while waiting:
            for reference in references(waiting.pop()):
                name = reference.get(BLOB)
                if not isinstance(name, str) or name in self._seen:
                    continue
                self._seen.add(name)
                try:
                    content = self._source.content(name)
                except BlobError as error:
                    self._copied.problems.append(str(error))
                    continue
                self._link(name)
                if b'"$blob"' in content:
                    waiting.append(decode(content))

    def _link(self, name: str) -> None:
        path = self._target.path(name)
        path.parent.parent.mkdir(mode=0o700, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        original = os.path.realpath(self._source.path(name))
        try:
            os.link(original, path)
        except OSError:  # another file system, or one without links
            import shutil

            shutil.copyfile(original, path)
            path.chmod(0o600)
        self._copied.blobs += 1
