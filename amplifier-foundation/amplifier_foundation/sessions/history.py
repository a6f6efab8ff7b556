"""Read back the conversation of a session, as we write it and as the published program wrote it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from amplifier_foundation.errors import FoundationError
from amplifier_kit.engine.pairing import Repair, repair_pairing

__all__ = [
    "CLOSING_TEXT",
    "History",
    "HistoryError",
    "Sound",
    "history_line",
    "load_history",
    "load_ledger",
    "repaired",
    "store_history",
]

Message = dict[str, Any]
Source = Literal["transcript", "backup", "empty"]

TRANSCRIPT: Final = "transcript.jsonl"
BACKUP: Final = "transcript.jsonl.backup"
#: The ledger of context-persistent, which that module believes more than anything it is told.
LEDGER: Final = "context-messages.jsonl"

CLOSING_TEXT: Final = "[The turn was interrupted before there was an answer.]"

_DONE: Final = {
    "missing_result": "a tool call has no result, and one that says so stands for it",
    "orphan_result": "a tool result without a call was left out",
    "duplicate_result": "a second result of a tool call was left out",
    "misplaced_result": "a tool result was moved behind its call",
    "duplicate_id": "a tool call whose id was used before was renamed",
    "unclosed_turn": "a turn that was cut off got an answer that says so",
}
_BOM: Final = b"\xef\xbb\xbf"
#: A line of a context's ledger that is no message: everything before it was cleared.
_CLEARED: Final = "_cleared"
_QUOTED: Final = 60


class HistoryError(FoundationError):
    """The conversation of a session cannot be read; nothing is taken for an empty one because of that."""

    code = "history_unreadable"


@dataclass(frozen=True)
class History:
    """Hold the messages of a session, what was wrong with the file, and where they come from."""

    messages: list[Message]
    #: One text for each thing that was left out or stands in for another, with file and line.
    problems: list[str] = field(default_factory=list)
    source: Source = "transcript"
    #: The line of each message as it stands in the file.
    lines: list[bytes] = field(default_factory=list, repr=False)


def load_history(folder: Path) -> History:
    """Return the conversation kept in a session's folder.

    A torn last line and lines that are no messages are left out and reported. A transcript that is missing or holds
    nothing but garbage is replaced by its backup. Raises HistoryError when there is one that cannot be read.
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
            raise HistoryError(f"{folder}: there is no such session folder: list the sessions to see which there are")
        return History([], [f"{path} does not exist: the conversation starts empty"], "empty")
    kept = _content(backup, problems)
    if kept is None:
        if content is None:
            raise HistoryError(f"{problems[0]}: make it readable, or put a copy back in its place")
        return History([], problems, "empty")
    problems.append(
        f"{path} {'holds no message' if content is not None else 'is missing'}: {backup.name} is used instead"
    )
    return _parsed(backup, kept, problems, "backup")


def load_ledger(folder: Path) -> list[Message]:
    """Return what a context with a file of its own has kept there, nothing when there is none that can be read.

    It is written with every message, so that after a crash it may go further than the transcript.
    """
    content = _content(folder / LEDGER, [])
    return _parsed(folder / LEDGER, content, []).messages if content is not None else []


class Sound(NamedTuple):
    """Hold a history that can be gone on with, and what had to be done for it."""

    messages: list[Message]
    repairs: list[Repair]

    @property
    def notes(self) -> list[str]:
        """Return what was done, in readable lines."""
        return [
            f"{_DONE[mended.kind]}: {mended.tool_call_id} ({mended.tool_name or 'unknown tool'})"
            if mended.tool_call_id
            else _DONE[mended.kind]
            for mended in self.repairs
        ]


def repaired(messages: Sequence[Mapping[str, Any]]) -> Sound:
    """Return a history after which the user can speak: every call has its result, and the last turn has an answer.

    Messages that need no change are the very objects given.
    """
    # The user speaks next: that lets the repair close a turn whose results are lost.
    sound, repairs = repair_pairing([*messages, {"role": "user", "content": ""}])
    del sound[-1]
    if sound and sound[-1].get("role") == "tool":
        sound.append(closing_message())
        repairs.append(Repair("unclosed_turn", "", ""))
    return Sound(sound, repairs)


def closing_message() -> Message:
    """Build the answer of a turn that has none."""
    return {"role": "assistant", "content": CLOSING_TEXT, "metadata": {"synthetic": True}}


def history_line(message: Mapping[str, Any]) -> bytes:
    """Return a message as its line of a transcript, without the end of it."""
    from amplifier_kit.engine.context.transcript import sanitize_message

    return json.dumps(sanitize_message(message), ensure_ascii=False).encode("utf-8", "replace")


def lines_of(messages: Iterable[Message], history: History) -> list[bytes]:
    """Return the lines of messages: those that `history` holds as they stand there, others laid out anew."""
    known = {id(message): line for message, line in zip(history.messages, history.lines, strict=True)}
    return [known.get(id(message)) or history_line(message) for message in messages]


def store_history(folder: Path, lines: Sequence[bytes], *, keep_backup: bool = True) -> None:
    """Put a conversation in place of the one in a folder, the old one kept as backup; raises OSError.

    A context's own ledger, where there is one, is replaced likewise.
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
            # The end of the file without the end of a line: the process died while it wrote.
            torn = "is torn, most likely by a crash" if number == last else "is malformed"
            problems.append(f"{path}:{number} {torn} and was left out: {error} in {_quoted(line)}")
            continue
        if not isinstance(record, dict) or not isinstance(record.get("role"), str):
            if isinstance(record, dict) and _CLEARED in record:
                messages.clear()
                kept.clear()
                continue
            problems.append(f"{path}:{number} is no message (it has no role) and was left out: {_quoted(line)}")
            continue
        messages.append(_in_todays_words(record))
        kept.append(line)
    return history


def _quoted(line: bytes) -> str:
    text = line[:_QUOTED].decode("utf-8", "replace")
    return repr(text + "…" if len(line) > _QUOTED else text)


def _in_todays_words(record: Message) -> Message:
    """Rewrite what older writers spelled otherwise; nothing is lost."""
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
            pass  # the loop tells the model that its arguments are no JSON
    return entry
