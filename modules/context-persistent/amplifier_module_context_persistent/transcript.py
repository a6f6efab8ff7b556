"""Keep messages in a file, a line of JSON each: masked, appended with one write, readable after a crash at any moment.

The lines are those of `transcript.jsonl`: UTF-8 as it is, no system messages, no empty values."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from amplifier_kit.awaitable import plain_result
from amplifier_kit.engine.context.ledger import SYSTEM_ROLES, Message, sanitize_message
from amplifier_kit.guard.files.configured_file import ConfiguredFile, Denied
from amplifier_kit.guard.private_files import masked
from amplifier_kit.guard.redaction.known_values import live_values_from_env, live_values_from_plan
from amplifier_kit.guard.redaction.prefilter import MASK
from amplifier_kit.guard.redaction.redactor import Redactor

# --- masking ---


logger = logging.getLogger(__name__)


_MASK_START = MASK.rstrip("]")


def mask_for(coordinator: Any) -> Callable[[Message], Message]:
    """Return the function that masks the secrets in a message before it is written.

    The session's own redaction (capability `redaction.scrub`) is used if present; else known secrets of the environment
    and the plan, and text that looks like one, are masked. A message that cannot be masked is written without content.
    """
    own: Redactor | None = None

    def scrub(message: Message) -> Any:
        nonlocal own
        offered = coordinator.get_capability("redaction.scrub")
        if callable(offered):
            return plain_result(offered(message))
        if own is None:
            live = [*live_values_from_env(os.environ), *live_values_from_plan(coordinator.config)]
            own = Redactor(live, rules=("secrets",))
        return own.scrub(message).value

    def mask(message: Message) -> Message:
        try:
            masked = scrub(message)
            if not isinstance(masked, dict):
                raise TypeError(f"redaction.scrub returned {type(masked).__name__} for a message")
        except Exception as error:
            logger.error("context-persistent: a message cannot be masked and is written without content: %s", error)
            masked = {"role": message["role"], "content": MASK, "tool_calls": _bare_calls(message.get("tool_calls"))}
        return _with_join_keys({key: value for key, value in masked.items() if value is not None}, message)

    return mask


def masked_count(messages: Iterable[Message]) -> int:
    """Return how many messages have a mask in them."""
    return sum(_MASK_START in str(message) for message in messages)


def _bare_calls(calls: Any) -> list[dict[str, Any]] | None:
    if not isinstance(calls, list):
        return None
    return [{key: call[key] for key in ("id", "tool") if key in call} for call in calls if isinstance(call, dict)]


def _with_join_keys(masked: Message, message: Message) -> Message:
    """Restore the ids that pair calls with their results, in case a rule has masked them."""
    for key in ("role", "tool_call_id", "name"):
        if key in message:
            masked[key] = message[key]
    for key in ("tool_calls", "content"):
        calls, before = masked.get(key), message.get(key)
        if isinstance(calls, list) and isinstance(before, list) and len(calls) == len(before):
            for call, original in zip(calls, before, strict=True):
                if isinstance(call, dict) and isinstance(original, dict) and "id" in original:
                    call["id"] = original["id"]
    return masked


# --- the file ---


#: The key of a line that is not a message: everything before it was cleared.
_CLEARED: Final = "_cleared"


class TranscriptBusyError(RuntimeError):
    """Another session writes to this transcript."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is being written by another session: end that session first, or give this one another "
            "transcript_path"
        )
        self.path = path


class Transcript:
    """Append messages to a file and read them back.

    `history` returns all messages, to rewrite a file that was deleted; `redact` changes what is written, never what is
    in memory; `check` raises PermissionError for a path that must not be written. Nothing is created before the first
    message. When a write fails, the failure is logged once and the lines are kept and written as soon as that is
    possible again: a full disk never stops a session.

    Where a config names the file, `project` and `denied` decide how it may be opened, see ConfiguredFile.
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
        self._source = ConfiguredFile(path, project, denied)
        self._history = history
        self._redact = redact
        self._check = check
        self._file: int | None = None
        #: Whether the file ends in an incomplete line.
        self._is_torn = False
        self._unwritten: list[bytes] = []
        self._is_failing = False

    def load(self) -> list[Message]:
        """Return the messages of the file, [] when there is none, and lock it against other writers.

        Invalid lines are skipped with a warning that names file and line. Raises TranscriptBusyError when another
        session writes to the file and OSError when it cannot be read, or must not be a transcript.
        """
        self._check(self.path)
        if not self._source.exists():
            return []
        try:
            self._open()
        except PermissionError as error:
            logger.warning("%s can be read, but not written: %s", self.path, error)
        try:
            data = self._source.read(largest=None)
        except OSError:
            self._close_file()
            raise
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        messages: list[Message] = []
        for number, line in enumerate(lines, 1):
            record = self._parse(line, number, is_last=number == len(lines)) if line.strip() else None
            if record is not None and _CLEARED in record:
                messages.clear()
            elif record is not None:
                messages.append(_message(record))
        return messages

    def append(self, message: Message) -> None:
        """Write one message; system messages are not written. Never raises: see the class."""
        if message["role"] in SYSTEM_ROLES:
            return
        if self._file is not None and os.fstat(self._file).st_nlink == 0:
            logger.warning("%s was deleted while in use; it is written again", self.path)
            self._close_file()
            # `message` is part of the history.
            self._unwritten = [self._line(known) for known in self._history() if known["role"] not in SYSTEM_ROLES]
        else:
            self._unwritten.append(self._line(message))
        self._flush()

    def clear(self) -> None:
        """Make the next load start after this moment; lines stay in the file."""
        if self._file is None and not self._unwritten and not self._source.exists():
            return
        self._unwritten.append(_encode({_CLEARED: True, "timestamp": _now()}))
        self._flush()

    def close(self) -> None:
        """Write pending lines, if possible, and close the file."""
        if self._unwritten:
            self._flush()
        if self._unwritten:
            logger.error("%s: %d lines could not be written and are lost", self.path, len(self._unwritten))
        self._close_file()

    def _parse(self, line: bytes, number: int, *, is_last: bool) -> dict[str, Any] | None:
        try:
            record = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            problem = "is torn, most likely by a crash" if is_last else "is malformed"
            logger.warning("%s:%d %s and is skipped: %s", self.path, number, problem, error)
            return None
        if isinstance(record, dict):
            role = record.get("role")
            if _CLEARED in record or (isinstance(role, str) and role):
                return record
        logger.warning("%s:%d is skipped: it is not a message with a role", self.path, number)
        return None

    def _line(self, message: Message) -> bytes:
        record = sanitize_message(message)
        if self._redact is not None:
            record = self._redact(record)
        metadata = message.get("metadata")
        timestamp = metadata.get("timestamp") if isinstance(metadata, dict) else None
        return masked(_encode({**record, "timestamp": timestamp or _now()}))

    def _flush(self) -> None:
        try:
            file = self._open()
            while self._unwritten:
                self._write(file, self._unwritten[0])
                del self._unwritten[0]
        except (OSError, TranscriptBusyError) as error:
            if not self._is_failing:
                logger.error("%s cannot be written; the session continues from memory: %s", self.path, error)
            self._is_failing = True
        else:
            if self._is_failing:
                logger.warning("%s is being written again; nothing is missing", self.path)
            self._is_failing = False

    def _write(self, file: int, line: bytes) -> None:
        """Append a line with one write; one that is cut short is left torn, to be written again whole."""
        data = b"\n" + line if self._is_torn else line
        written = os.write(file, data)
        self._is_torn = written < len(data)
        if self._is_torn:
            raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written")

    def _open(self) -> int:
        """Return the open file, locked against other sessions."""
        if self._file is not None:
            return self._file
        self._check(self.path)
        file = self._source.open_to_append()
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise TranscriptBusyError(self.path) from error
            except OSError as error:  # a file system without locks
                logger.debug("%s cannot be locked: %s", self.path, error)
            size = os.fstat(file).st_size
            self._is_torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return file

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _message(record: dict[str, Any]) -> Message:
    """Turn a line back into a message, which has its timestamp in the metadata."""
    timestamp = record.pop("timestamp", None)
    metadata = record.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    if timestamp is not None and not known.get("timestamp"):
        record["metadata"] = {**known, "timestamp": timestamp}
    return record


def _encode(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
