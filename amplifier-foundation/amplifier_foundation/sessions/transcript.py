"""The transcript of a session: `Transcript` appends its messages, `load_history` reads them back.

One message per line, without secrets. Transcripts of the published program are read too.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Literal

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import replace_file
from amplifier_foundation.sessions.log import EVENT_SEQ, MessageNumbers, without_seq
from amplifier_kit.engine.pairing import Repair, repair_pairing
from amplifier_kit.guard.private_files import masked, open_private
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

__all__ = [
    "CLOSING_TEXT",
    "History",
    "HistoryError",
    "RepairedHistory",
    "Transcript",
    "history_line",
    "kept_messages",
    "load_history",
    "load_ledger",
    "repair_history",
    "store_history",
]

Message = dict[str, Any]
Source = Literal["transcript", "backup", "empty"]

TRANSCRIPT: Final = "transcript.jsonl"
BACKUP: Final = "transcript.jsonl.backup"
#: The messages that context-persistent keeps itself, and which it prefers to those it is given.
LEDGER: Final = "context-messages.jsonl"

CLOSING_TEXT: Final = "[The turn was interrupted before there was an answer.]"

_REPAIRS: Final = {
    "missing_result": "a tool call without a result got one that says so",
    "orphan_result": "a tool result without a call was left out",
    "duplicate_result": "a second result of a tool call was left out",
    "misplaced_result": "a tool result was moved after its call",
    "duplicate_id": "a tool call whose id was used before was renamed",
    "unclosed_turn": "an interrupted turn got an answer that says so",
}
_BOM: Final = b"\xef\xbb\xbf"
#: Marks a line of a context's ledger that clears everything before it.
_CLEARED: Final = "_cleared"
_QUOTED: Final = 60


class HistoryError(FoundationError):
    """The conversation of a session cannot be read; it is not treated as empty."""

    code = "history_unreadable"


class History(FrozenStruct):
    """The messages of a session, the problems of the file, and which file they come from."""

    messages: list[Message]
    #: One text for each line that was left out, with file and line, and for the use of a backup.
    problems: list[str] = field(default_factory=list)
    source: Source = "transcript"
    #: The line of each message as it is in the file, and its number.
    lines: list[bytes] = field(default_factory=list, repr=False)
    numbers: list[int] = field(default_factory=list, repr=False)


def load_history(folder: Path) -> History:
    """Return the conversation in a session's folder.

    A torn last line and lines without a message are left out and reported. A transcript that is missing or has no
    valid message is replaced by its backup. Raises HistoryError if a file exists and cannot be read.
    """
    path, backup = folder / TRANSCRIPT, folder / BACKUP
    problems: list[str] = []
    content = _content(path, problems)
    if content is not None:
        history = _parsed(path, content, problems)
        if history.messages or not content.strip():
            return history
    elif not problems and not backup.exists():
        if not folder.is_dir():
            raise HistoryError(
                f"{folder}: there is no such session folder: `amplifier session list` shows the sessions"
            )
        return History([], [f"{path} does not exist: the conversation starts empty"], "empty")
    kept = _content(backup, problems)
    if kept is None:
        if content is None:
            raise HistoryError(f"{problems[0]}: make it readable, or restore a copy of it")
        return History([], problems, "empty")
    problems.append(
        f"{path} {'holds no message' if content is not None else 'is missing'}: {backup.name} is used instead"
    )
    return _parsed(backup, kept, problems, "backup")


def load_ledger(folder: Path) -> list[Message]:
    """Return the messages that context-persistent wrote; none if its file is missing or unreadable.

    It writes every message at once, so that after a crash it may have more than the transcript.
    """
    content = _content(folder / LEDGER, [])
    return _parsed(folder / LEDGER, content, []).messages if content is not None else []


class RepairedHistory(FrozenStruct):
    """A history that can be continued, and its repairs."""

    messages: list[Message]
    repairs: list[Repair]

    @property
    def notes(self) -> list[str]:
        """The repairs as text."""
        return [
            f"{_REPAIRS[one.kind]}: {one.tool_call_id} ({one.tool_name or 'unknown tool'})"
            if one.tool_call_id
            else _REPAIRS[one.kind]
            for one in self.repairs
        ]


def repair_history(messages: Sequence[Mapping[str, Any]]) -> RepairedHistory:
    """Return a history to which a prompt can be added: every call has its result, and the last turn has an answer.

    Messages that need no repair are the same objects.
    """
    # With a prompt at the end, the repair also closes a turn whose results are lost.
    sound, repairs = repair_pairing([*messages, {"role": "user", "content": ""}])
    del sound[-1]
    if sound and sound[-1].get("role") == "tool":
        sound.append(closing_message())
        repairs.append(Repair("unclosed_turn", "", ""))
    return RepairedHistory(sound, repairs)


def closing_message() -> Message:
    """Return the answer for a turn that has none."""
    return {"role": "assistant", "content": CLOSING_TEXT, "metadata": {"synthetic": True}}


def history_line(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line of a transcript, without its newline."""
    from amplifier_kit.engine.context.ledger import sanitize_message

    return json.dumps(sanitize_message(message), ensure_ascii=False).encode("utf-8", "replace")


def lines_of(messages: Iterable[Message], history: History) -> list[bytes]:
    """Return the lines of messages; those in `history` keep their bytes."""
    known = {id(message): line for message, line in zip(history.messages, history.lines, strict=True)}
    return [known.get(id(message)) or history_line(message) for message in messages]


def store_history(folder: Path, lines: Sequence[bytes], *, keep_backup: bool = True) -> None:
    """Replace the conversation in a folder, and the ledger of context-persistent if it has one; raises OSError.

    The files become the backups.
    """
    from amplifier_foundation.files import replace_file

    content = b"".join(line + b"\n" for line in lines)
    for path in (folder / TRANSCRIPT, folder / LEDGER):
        exists = path.exists()
        if not exists and path.name == LEDGER:
            continue
        if exists and keep_backup:
            replace_file(path.with_name(f"{path.name}.backup"), path.read_bytes())
        replace_file(path, content)


def _content(path: Path, problems: list[str]) -> bytes | None:
    try:
        return path.read_bytes().removeprefix(_BOM)
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(f"{path} cannot be read: {error.strerror or error}")
        return None


def _parsed(path: Path, content: bytes, problems: list[str], source: Source = "transcript") -> History:
    history = History([], problems, source)
    messages, kept = history.messages, history.lines
    lines = content.split(b"\n")
    last = len(lines)
    decode = json.JSONDecoder().decode
    for number, line in enumerate(lines, 1):
        line = line.rstrip(b"\r")
        if not line or line.isspace():
            continue
        try:
            record = decode(line.decode())
        except (ValueError, RecursionError) as error:
            # A last line without a newline: the process died while writing it.
            torn = "is torn, most likely by a crash" if number == last else "is malformed"
            problems.append(f"{path}:{number} {torn} and was left out: {error} in {_quoted(line)}")
            continue
        if not isinstance(record, dict) or not isinstance(record.get("role"), str):
            if isinstance(record, dict) and _CLEARED in record:
                messages.clear()
                kept.clear()
                history.numbers.clear()
                continue
            problems.append(f"{path}:{number} is not a message (it has no role) and was left out: {_quoted(line)}")
            continue
        messages.append(_normalize(record))
        kept.append(line)
        history.numbers.append(number)
    return history


def _quoted(line: bytes) -> str:
    text = line[:_QUOTED].decode("utf-8", "replace")
    return repr(text + "…" if len(line) > _QUOTED else text)


def _normalize(record: Message) -> Message:
    """Convert the spellings of older writers; nothing is lost."""
    if "timestamp" in record:
        stamped = record.pop("timestamp")
        metadata = record.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        record["metadata"] = {"timestamp": stamped, **metadata}
    if record["role"] == "tool" and "name" not in record:
        named = record.pop("tool_name", None) or record.pop("tool", None)
        if isinstance(named, str):
            record["name"] = named
    calls = record.get("tool_calls")
    if isinstance(calls, list):
        record["tool_calls"] = [_call(entry) if isinstance(entry, dict) else entry for entry in calls]
    return record


def _call(entry: Message) -> Message:
    if "tool" in entry and "arguments" in entry:
        return entry
    function = entry.pop("function", None)
    if isinstance(function, dict):
        entry.pop("type", None)
        entry = {**entry, **function}
    for old, new in (("name", "tool"), ("input", "arguments")):
        if new not in entry and old in entry:
            entry[new] = entry.pop(old)
    arguments = entry.get("arguments")
    if isinstance(arguments, str):
        try:
            entry["arguments"] = json.loads(arguments or "{}")
        except ValueError:
            pass  # the orchestrator reports invalid arguments to the model
    return entry


# -- writing --


_LEFT_OUT: Final = ("system", "developer")
_BLOCK: Final = 65_536


class Transcript:
    """Append the messages of one session to its `transcript.jsonl`.

    Appending costs the same however long the conversation is. A conversation that was replaced (cleared, repaired,
    compacted by a context that forgets messages) is rewritten; the old file becomes `transcript.jsonl.backup`.
    """

    def __init__(self, path: Path, scrub: Callable[[Any], Any], numbers: MessageNumbers | None = None) -> None:
        """Write to `path`; `scrub` returns a copy of a message without secrets, `numbers` knows their log lines."""
        self._path = path
        self._scrub = scrub
        self._numbers = numbers or MessageNumbers()
        #: How many messages are in the file.
        self._written = 0
        #: The last of them, to distinguish a history that was replaced from one that grew.
        self._last: dict[str, Any] | None = None
        #: How many messages the context had last time, and the last of them; None if unknown.
        self._position: int | None = None
        self._seen: dict[str, Any] | None = None
        #: The size of the file after the last write; None before it.
        self._size: int | None = None

    def resume(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Continue after `messages`, which the file has already; nothing is read or written."""
        kept = kept_messages(messages)
        self._written, self._last = len(kept), without_seq(kept[-1]) if kept else None
        self._position = self._seen = self._size = None

    def update(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Append the messages since the last update, or rewrite the file if the history was replaced.

        Raises OSError if that fails; the file is then unchanged, and the next update tries again.
        """
        kept = kept_messages(messages)
        if not self._has_grown(kept) or not self._append(kept[self._written :]):
            self._rewrite(kept)
        self._written, self._last = len(kept), without_seq(kept[-1]) if kept else None
        self._position, self._seen = len(messages), dict(messages[-1]) if messages else None

    def follow(self, count: int, since: Callable[[int], Sequence[Mapping[str, Any]]]) -> None:
        """Do the same for a context with `count` messages, where `since` returns those from a position on.

        Only the new messages are read. Raises what `update` raises.
        """
        position = self._position
        if position is None or count < position:
            return self.update(since(0))
        overlap = min(position, 1)
        tail = since(position - overlap)
        if overlap and (not tail or tail[0] != self._seen):
            return self.update(since(0))
        fresh = kept_messages(tail[overlap:])
        if not self._append(fresh):
            return self.update(since(0))
        if fresh:
            self._written, self._last = self._written + len(fresh), without_seq(fresh[-1])
        if tail:
            self._position, self._seen = position - overlap + len(tail), dict(tail[-1])
        return None

    def _has_grown(self, kept: Sequence[Mapping[str, Any]]) -> bool:
        if not self._written:
            return True
        return len(kept) >= self._written and without_seq(kept[self._written - 1]) == self._last

    def _append(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Append messages; return False if the file has lost those before them."""
        if not messages:
            return True
        lines = masked(b"".join(self._line(message, is_new=True) for message in messages))
        descriptor = open_private(self._path, os.O_RDWR | os.O_APPEND)
        try:
            size = os.fstat(descriptor).st_size
            if size < (self._size or 0) or (self._written and not size):
                return False  # another process has deleted or truncated it
            if size != self._size:
                size, is_sound = _clean_tail(descriptor, size)
                if self._written and not is_sound:
                    return False
            self._write(descriptor, lines, size)
            self._size = size + len(lines)
        finally:
            os.close(descriptor)
        return True

    def _write(self, descriptor: int, lines: bytes, size: int) -> None:
        try:
            written = os.write(descriptor, lines)
            if written < len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        except OSError:
            os.ftruncate(descriptor, size)  # the next message would be appended to half a line
            raise

    def _rewrite(self, kept: Sequence[Mapping[str, Any]]) -> None:
        content = masked(b"".join(self._line(message, is_new=False) for message in kept))
        self._keep_previous()
        replace_file(self._path, content)
        self._size = len(content)

    def _keep_previous(self) -> None:
        """Make the file the backup; a file without a valid message must not replace a backup that has some."""
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                is_sound = size > 0 and _is_message(_last_line(file.fileno(), size).strip())
                content = file.read()
        except FileNotFoundError:
            return
        if content:
            kind = "backup" if is_sound else "damaged"
            replace_file(self._path.with_name(f"{self._path.name}.{kind}"), content)

    def _line(self, message: Mapping[str, Any], *, is_new: bool) -> bytes:
        from amplifier_kit.engine.context.ledger import sanitize_message

        line = sanitize_message(message)
        if (seq := self._numbers.of(message, is_new=is_new)) is not None:
            line = {**line, "metadata": {**(line.get("metadata") or {}), EVENT_SEQ: seq}}
        text = json.dumps(self._scrub(line), ensure_ascii=False, default=str)
        return text.encode("utf-8", "replace") + b"\n"


def kept_messages(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages that are stored: all but those of the system."""
    return [message for message in messages if message.get("role") not in _LEFT_OUT]


def _clean_tail(descriptor: int, size: int) -> tuple[int, bool]:
    """Add a missing newline, or remove the last line if a crash left half of it.

    Returns the new size of the file, and whether its last line is a message.
    """
    if not size:
        return 0, False
    last = _last_line(descriptor, size)
    if last.endswith(b"\n"):
        return size, _is_message(last)
    if _is_message(last):
        os.write(descriptor, b"\n")
        return size + 1, True
    size -= len(last)
    os.ftruncate(descriptor, size)
    return size, size > 0 and _is_message(_last_line(descriptor, size))


def _last_line(descriptor: int, size: int) -> bytes:
    """Return the last line, with its newline if it has one."""
    found = b""
    while size:
        length = min(_BLOCK, size)
        size -= length
        found = os.pread(descriptor, length, size) + found
        cut = found.rfind(b"\n", 0, len(found) - 1)
        if cut >= 0:
            return found[cut + 1 :]
    return found


def _is_message(line: bytes) -> bool:
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and "role" in record


# -- the parts of a message --

_THOUGHTS: Final = ("thinking", "redacted_thinking")
_CALLS: Final = ("tool_call", "tool_use")


class MessageParts(NamedTuple):
    """The parts of one message."""

    thoughts: list[str]
    #: The content without thoughts and calls.
    content: Any
    #: The tool calls: name and arguments.
    calls: list[tuple[str, Any]]


def message_parts(message: Mapping[str, Any]) -> MessageParts:
    """Return the parts of a message."""
    content, listed = message.get("content"), message.get("tool_calls")
    blocks = content if isinstance(content, list) else []
    thoughts = [str(block["thinking"]) for block in blocks if _is(block, "thinking") and block.get("thinking")]
    known = message.get("thinking_text")
    if known and str(known).strip() != "\n".join(thoughts).strip() and str(known) not in thoughts:
        thoughts.insert(0, str(known))
    calls = [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
    ids = {call.get("id") for call in calls}
    calls += [block for block in blocks if _is(block, *_CALLS) and (block.get("id") is None or block["id"] not in ids)]
    rest = [block for block in blocks if not _is(block, *_THOUGHTS, *_CALLS)]
    return MessageParts(
        thoughts,
        rest if isinstance(content, list) else content,
        [(str(call.get("tool") or call.get("name")), call.get("arguments", call.get("input"))) for call in calls],
    )


def _is(block: object, *kinds: str) -> bool:
    return isinstance(block, dict) and block.get("type") in kinds
