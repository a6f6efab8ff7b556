"""Keep messages in a file, one line of JSON each: appended with one write, readable after a crash at any moment.

The lines are those of `transcript.jsonl`: UTF-8 as it is, no system messages, no empty values.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, Final

from amplifier_kit.engine.context.ledger import SYSTEM_ROLES
from amplifier_kit.engine.context.messages import Message
from amplifier_kit.guard.files.configured_file import ConfiguredFile, Denied
from amplifier_kit.guard.private_files import masked

if sys.platform != "win32":
    import fcntl

__all__ = ["Transcript", "TranscriptBusyError", "sanitized"]

logger = logging.getLogger(__name__)

#: A line with this key is no message: everything before it was cleared.
_CLEARED: Final = "_cleared"
_DROP: Final = object()
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS})


class TranscriptBusyError(RuntimeError):
    """Another session writes to this transcript."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is being written by another session: end that one first, or give this one a transcript_path of "
            "its own"
        )
        self.path = path


class Transcript:
    """Append messages to a file and read them back.

    `history` gives all messages, for the case that the file has vanished and is written anew; `redact` changes what is
    written, never what is in memory; `check` raises PermissionError for a path that nobody may write. Nothing is
    created before the first message. What cannot be written is reported once, kept, and written as soon as that is
    possible again: a full disk never stops a session.

    Where a config names the file, `project` and `denied` say how it may be opened, see ConfiguredFile.
    """

    def __init__(
        self,
        path: Path,
        *,
        history: Callable[[], Iterable[Message]] = tuple,
        redact: Callable[[Message], Message] | None = None,
        project: Path | None = None,
        denied: Denied | None = None,
        check: Callable[[Path], None] = lambda path: None,
    ) -> None:
        self.path = path
        self._named = ConfiguredFile(path, project, denied)
        self._history = history
        self._redact = redact
        self._check = check
        self._file: int | None = None
        self._torn = False
        self._unwritten: list[bytes] = []
        self._reported = False

    def load(self) -> list[Message]:
        """Return the messages of the file, [] when there is none, and keep other writers away from now on.

        Lines that are no messages are skipped with a warning that names file and line. Raises TranscriptBusyError when
        another session writes to the file and OSError when it cannot be read, or must not be a transcript.
        """
        self._check(self.path)
        if not self._named.exists():
            return []
        try:
            self._open()
        except PermissionError as error:
            logger.warning("%s can be read, but not written: %s", self.path, error)
        try:
            return self._parse(self._named.read(largest=None))
        except OSError:
            self._let_go()
            raise

    def append(self, message: Message) -> None:
        """Write one message; system messages are not written. Raises nothing: see the class."""
        if message["role"] in SYSTEM_ROLES:
            return
        if self._vanished():
            self._write_anew()  # this message is part of the history
            return
        self._unwritten.append(self._line(message))
        self._write_out()

    def clear(self) -> None:
        """Let everything before this moment be forgotten at the next load; lines stay in the file."""
        if self._file is None and not self._unwritten and not self._named.exists():
            return
        self._unwritten.append(_encoded({_CLEARED: True, "timestamp": _now()}))
        self._write_out()

    def close(self) -> None:
        """Write what could not be written before, if possible, and let go of the file."""
        if self._unwritten:
            self._write_out()
        if self._unwritten:
            logger.error("%s: %d lines could not be written and are lost", self.path, len(self._unwritten))
        self._let_go()

    # -- reading --

    def _parse(self, data: bytes) -> list[Message]:
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        messages: list[Message] = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            record = self._record(line, number, last=number == len(lines))
            if record is None:
                continue
            if _CLEARED in record:
                messages.clear()
            else:
                messages.append(_message(record))
        return messages

    def _record(self, line: bytes, number: int, *, last: bool) -> dict[str, Any] | None:
        try:
            record = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            what = "is torn, most likely by a crash" if last else "is malformed"
            logger.warning("%s:%d %s and is skipped: %s", self.path, number, what, error)
            return None
        if isinstance(record, dict) and (
            _CLEARED in record or (isinstance(record.get("role"), str) and record["role"])
        ):
            return record
        logger.warning("%s:%d is no message and is skipped: it has no role", self.path, number)
        return None

    # -- writing --

    def _line(self, message: Message) -> bytes:
        record = sanitized(message)
        if self._redact is not None:
            record = self._redact(record)
        metadata = message.get("metadata")
        stamped = metadata.get("timestamp") if isinstance(metadata, dict) else None
        return masked(_encoded({**record, "timestamp": stamped or _now()}))

    def _write_out(self) -> None:
        try:
            self._open()
            while self._unwritten:
                self._write(self._unwritten[0])
                del self._unwritten[0]
        except (OSError, TranscriptBusyError) as error:
            if not self._reported:
                logger.error("%s cannot be written; the session goes on from memory: %s", self.path, error)
            self._reported = True
        else:
            if self._reported:
                logger.warning("%s is being written again; nothing is missing", self.path)
            self._reported = False

    def _write(self, line: bytes) -> None:
        """Append a line with one write; when that is cut short, the rest of the line is void and it is tried again."""
        assert self._file is not None, "a file is open here"
        data = b"\n" + line if self._torn else line
        written = os.write(self._file, data)
        if written < len(data):
            self._torn = True
            raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written")
        self._torn = False

    def _open(self) -> None:
        if self._file is not None:
            return
        self._check(self.path)
        file = self._named.open_to_append()
        try:
            self._lock(file)
            self._torn = os.fstat(file).st_size > 0 and _last_byte(file) != b"\n"
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def _lock(self, file: int) -> None:
        if sys.platform == "win32":
            return  # no such locks there: nothing keeps a second writer away
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TranscriptBusyError(self.path) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            logger.debug("%s cannot be locked here: %s", self.path, error)

    def _vanished(self) -> bool:
        """Tell whether somebody has deleted the open file: what is written to it then is lost."""
        return self._file is not None and os.fstat(self._file).st_nlink == 0

    def _write_anew(self) -> None:
        logger.warning("%s was deleted while in use; it is written anew", self.path)
        self._let_go()
        self._unwritten = [self._line(message) for message in self._history() if message["role"] not in SYSTEM_ROLES]
        self._write_out()

    def _let_go(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def sanitized(message: Mapping[str, Any]) -> Message:
    """Return a message as a transcript holds it.

    The text of `thinking_block` is kept as `thinking_text`, `content_blocks` is left out, and so is every None and
    everything that JSON cannot carry, wherever it stands.
    """
    record: Message = {}
    for key, value in message.items():
        if key == "thinking_block":
            key, value = "thinking_text", _thinking(value)
        plain = _plain(value) if key != "content_blocks" else _DROP
        if plain is not _DROP:
            record[str(key)] = plain
    return record


def _thinking(block: Any) -> Any:
    if isinstance(block, Mapping):
        return block.get("thinking") or block.get("text")
    return block if isinstance(block, str) else getattr(block, "thinking", None)


def _plain(value: Any) -> Any:
    if isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else _DROP
    if isinstance(value, Mapping):
        fields = {str(key): _plain(item) for key, item in value.items()}
        return {key: item for key, item in fields.items() if item is not _DROP}
    if isinstance(value, (list, tuple)):
        return [item for item in map(_plain, value) if item is not _DROP]
    return _DROP


def _message(record: dict[str, Any]) -> Message:
    """Turn a line back into a message: the time goes where messages have it."""
    stamped = record.pop("timestamp", None)
    metadata = record.get("metadata")
    if stamped is not None and not (isinstance(metadata, dict) and metadata.get("timestamp")):
        record["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), "timestamp": stamped}
    return record


def _last_byte(file: int) -> bytes:
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1)


def _encoded(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
