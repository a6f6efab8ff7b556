"""The log of a session beside its messages: which line made which message, where a turn ends, copies and ends of logs.

The loop announces a message by the event that makes it: `prompt:submit` the user's, `provider:response` the
assistant's, `tool:post` or `tool:error` the result of a call. From that line on the message counts as present, although
it reaches the context a moment later. While a session runs, `MessageNumbers` knows the line of each message, and the
transcript keeps its number (`event_seq` in the message's metadata).
"""

from __future__ import annotations

import errno
import logging
import os
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import field
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.trace import current_scope
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sessions.turns import is_real_user_message, starts_turn, turn_boundaries
from amplifier_foundation.timestamps import milliseconds
from amplifier_kit.engine.pairing import is_tool_result, tool_call_ids
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import Struct

if TYPE_CHECKING:
    from amplifier_kit.log.reader import LogLine, TornLine
    from amplifier_kit.log.writer import SessionLog

logger = logging.getLogger(__name__)

__all__ = [
    "CopiedEvents",
    "EventNotFoundError",
    "MessageNumbers",
    "Outline",
    "Placed",
    "SessionRunningError",
    "append_event",
    "copy_events",
    "end_log",
    "event_seq",
    "is_running",
    "lines_of_messages",
    "lock_session",
    "message_timestamp",
    "place_messages",
    "read_outline",
    "without_seq",
]

#: In the metadata of a stored message: the number (`seq`) of the line that made it.
EVENT_SEQ: Final = "event_seq"

_SUBMIT: Final = "prompt:submit"
_REQUEST: Final = "provider:request"
_RESPONSE: Final = "provider:response"
_LLM_RESPONSE: Final = "llm:response"
_TOOL_START: Final = "tool:pre"
_TOOL_END: Final = frozenset({"tool:post", "tool:error"})
_STEERED: Final = "orchestrator:steering_injected"
_MARKED: Final = frozenset({_SUBMIT, _REQUEST, _RESPONSE, _LLM_RESPONSE, _TOOL_START, _STEERED}) | _TOOL_END
#: Events between turns.
_BETWEEN: Final = ("session:", "cleanup:", "execution:start")
#: The place of messages that are older than the log.
BEFORE: Final = -1


class SessionRunningError(FoundationError):
    """A process runs this session."""

    code = "session_running"


class EventNotFoundError(FoundationError):
    """The log has no line with that number."""

    code = "event_not_found"


# -- numbers of messages --


def event_seq(message: Mapping[str, Any]) -> int | None:
    """Return the number of the line that made a stored message; None if it was not recorded."""
    found = _metadata(message).get(EVENT_SEQ)
    return found if isinstance(found, int) else None


def without_seq(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as a context has it that stores its own copy: without the number of its line."""
    if EVENT_SEQ not in _metadata(message):
        return dict(message)
    metadata = {key: value for key, value in message["metadata"].items() if key != EVENT_SEQ}
    rest = {key: value for key, value in message.items() if key != "metadata"}
    return {**rest, "metadata": metadata} if metadata else rest


class MessageNumbers:
    """The number of the log line that made each message, while a session runs."""

    def __init__(self) -> None:
        #: The last line of each event that makes a message.
        self._last: dict[str, int] = {}
        #: The lines with the response that made a call, and with its result.
        self._responses: dict[str, int] = {}
        self._results: dict[str, int] = {}

    def note(self, record: Mapping[str, Any], seq: int) -> None:
        """Record that a line was written."""
        event, call = record.get("event"), (record.get("data") or {}).get("tool_call_id")
        if event == _TOOL_START and call is not None and (response := self._last_response()) is not None:
            self._responses[call] = response
        elif event in _TOOL_END and call is not None:
            self._results[call] = seq
        elif event in (_SUBMIT, _RESPONSE, _LLM_RESPONSE, _STEERED):
            self._last[event] = seq

    def of(self, message: Mapping[str, Any], *, is_new: bool) -> int | None:
        """Return the number for a message, None if no line made it; `is_new` if it was not stored before."""
        if (known := event_seq(message)) is not None:
            return known
        if is_tool_result(message):
            return self._results.get(str(message.get("tool_call_id")))
        if message.get("role") == "assistant" and not _metadata(message).get("synthetic"):
            numbers = [self._responses[call] for call in tool_call_ids(message) if call in self._responses]
            return numbers[0] if numbers else self._last_response() if is_new else None
        if is_new and is_real_user_message(message):
            return self._last.get(_STEERED if _is_steering(message) else _SUBMIT)
        return None

    def _last_response(self) -> int | None:
        return self._last.get(_RESPONSE, self._last.get(_LLM_RESPONSE))


# -- which line made which message --


class Mark(NamedTuple):
    """A line that makes a message, or helps to find the one that does: its place in the log, counted from 0."""

    place: int
    event: str
    at: int | None
    turn: str | None
    call: str | None = None


class Outline(Struct):
    """What a log says about the messages of its session, without the lines themselves."""

    lines: int = 0
    marks: list[Mark] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)
    _by_place: dict[int, Mark] = field(default_factory=dict)
    _turn_ends: dict[str, int] = field(default_factory=dict)
    _between: set[int] = field(default_factory=set)

    def add(self, line: LogLine) -> None:
        """Add the next line."""
        place = self.lines
        self.lines += 1
        if (seq := line.seq) is not None:
            self._places[seq] = place
        turn = line.get("turn_id")
        if isinstance(turn, str):
            self._turn_ends[turn] = place
        event = line.event
        if event.startswith(_BETWEEN):
            self._between.add(place)
        if event in _MARKED:
            call = line.data.get("tool_call_id")
            mark = Mark(place, event, milliseconds(line.ts), turn, call if isinstance(call, str) else None)
            self.marks.append(mark)
            self._by_place[place] = mark

    def place_of(self, seq: int) -> int:
        """Return the place of the line numbered `seq`; in a published log, which has no numbers, lines count from 1.

        Raises EventNotFoundError.
        """
        if self._places:
            if (place := self._places.get(seq)) is not None:
                return place
            existing = f"events {min(self._places)} to {max(self._places)}"
        elif 1 <= seq <= self.lines:
            return seq - 1
        else:
            existing = f"events 1 to {self.lines}" if self.lines else "no events"
        raise EventNotFoundError(f"event {seq} does not exist: the log has {existing}")

    def made(self, message: Mapping[str, Any], *events: str) -> Mark | None:
        """Return the line that a message names as the one that made it, if it is one of these events.

        The number may belong to another log: of the session that this is a fork of, or one that was deleted since.
        """
        mark = self._by_place.get(self._places.get(event_seq(message) or 0, BEFORE))
        if mark is None or mark.event not in events:
            return None
        at = message_time(message)
        return mark if at is None or _is_by(mark, at) else None

    def find(self, message: Mapping[str, Any], after: int, *events: str) -> Mark | None:
        """Return the line of one of these events that made a message, behind the place `after`.

        It is the one that the message names. Without a number it is the first with the same call, the last that was
        written by the message's time, or the next one.
        """
        if (known := self.made(message, *events)) is not None:
            return known
        call, at = message.get("tool_call_id"), message_time(message)
        later = (mark for mark in self.marks if mark.place > after and mark.event in events)
        if call is not None:
            return next((mark for mark in later if mark.call == call), None)
        if at is None:
            return next(later, None)
        return next(reversed(list(takewhile(lambda mark: _is_by(mark, at), later))), None)

    def responses(self) -> list[Mark]:
        """Return the lines that answers came with: the loop's, else the provider's."""
        found = [mark for mark in self.marks if mark.event == _RESPONSE]
        return found or [mark for mark in self.marks if mark.event == _LLM_RESPONSE]

    def makers(self) -> list[Mark]:
        """Return the lines that messages come with."""
        answers = set(map(id, self.responses()))
        return [mark for mark in self.marks if mark.event in _TOOL_END or mark.event == _SUBMIT or id(mark) in answers]

    def end_of_turn(self, submit: Mark, limit: int) -> int:
        """Return the place after the last line of a turn; `limit` is where the next turn begins."""
        if submit.turn is not None:
            return min(self._turn_ends[submit.turn] + 1, limit)
        while limit - 1 > submit.place and limit - 1 in self._between:
            limit -= 1
        return limit


class Placed(NamedTuple):
    """The line of each message, and the prompt of each turn."""

    #: BEFORE for messages that are older than the log. Messages other than results are in order.
    places: list[int]
    #: None for a turn that the log does not have.
    submits: list[Mark | None]

    def lines_of_turn(self, outline: Outline, turn: int) -> int:
        """Return how many lines the log had when a turn, counted from 1, had ended; 0 if it does not have the turn."""
        submit = self.submits[turn - 1]
        if submit is None:
            return 0
        following = next((mark for mark in self.submits[turn:] if mark is not None), None)
        return outline.end_of_turn(submit, outline.lines if following is None else following.place)

    def lines_until_next_message(self, outline: Outline) -> int:
        """Return how many lines there are before the first one that made a message which is not among these.

        The log of a session that runs, or was killed, is ahead of its transcript.
        """
        last = max(self.places, default=BEFORE)
        return next((mark.place for mark in outline.makers() if mark.place > last), outline.lines)


def read_outline(location: Path) -> Outline:
    """Read a session's log, which may be growing; lines without a record are reported in `problems`."""
    from amplifier_kit.log.reader import read_log

    outline = Outline()

    def report(torn: TornLine) -> None:
        outline.problems.append(f"{torn.path}:{torn.number} has no record and was left out ({torn.length} bytes)")

    for line in read_log(location, report):
        outline.add(line)
    return outline


def place_messages(messages: Sequence[Mapping[str, Any]], outline: Outline) -> Placed:
    """Find the line that made each message: by its number, else by its call, its time or its order.

    A message without a line (injected by a hook, added by a repair) has the place of the message before it.
    """
    responses = tuple({mark.event for mark in outline.responses()})
    places: list[int] = []
    submits: list[Mark | None] = []
    #: The place that messages have reached, and that of the last message with calls.
    reached = called = BEFORE
    for message in messages:
        if is_tool_result(message):
            mark = outline.find(message, called, *_TOOL_END)
            places.append(called if mark is None else mark.place)
            reached = max(reached, places[-1])
            continue
        mark = None
        if starts_turn(message):
            mark = outline.find(message, reached, _SUBMIT)
            submits.append(mark)
        elif submits and submits[-1] is not None:  # other turns are older than the log
            if _is_steering(message):
                mark = outline.find(message, reached, _STEERED)
            elif message.get("role") == "assistant" and not _metadata(message).get("synthetic"):
                mark = outline.find(message, reached, *responses)
        called = reached = reached if mark is None else max(reached, mark.place)
        places.append(reached)
    return Placed(places, submits)


def lines_of_messages(messages: Sequence[Mapping[str, Any]], end: int, placed: Placed, outline: Outline) -> int:
    """Return how many lines the log had when the first `end` messages were there, and no others.

    Where they end with a turn, those are all lines of the turn; 0 if the log does not have it.
    """
    starts = turn_boundaries(messages)
    turn = bisect_left(starts, end)
    if turn and end == (starts[turn] if turn < len(starts) else len(messages)):
        lines = placed.lines_of_turn(outline, turn)
        return min(lines, placed.lines_until_next_message(outline)) if turn == len(starts) else lines
    lines = Placed(placed.places[:end], []).lines_until_next_message(outline)
    following = placed.places[end]
    return min(lines, following) if following > max(placed.places[:end], default=BEFORE) else lines


def message_time(message: Mapping[str, Any]) -> int | None:
    """Return when a message was made, in milliseconds; None if it does not say."""
    return milliseconds(message_timestamp(message))


def message_timestamp(message: Mapping[str, Any]) -> str | None:
    """Return when a message was made, as it is written; older programs have it beside the metadata."""
    found = _metadata(message).get("timestamp") or message.get("timestamp") or message.get("ts")
    return found if isinstance(found, str) else None


def _is_by(mark: Mark, at: int) -> bool:
    return mark.at is None or mark.at <= at


def _is_steering(message: Mapping[str, Any]) -> bool:
    return _metadata(message).get("source") == "steering"


def _metadata(message: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = message.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


# -- copies --


class CopiedEvents(Struct):
    """How much was copied, and what was missing in the original."""

    lines: int = 0
    blobs: int = 0
    problems: list[str] = field(default_factory=list)


def copy_events(
    source: Path, target: Path, lines: int, *, session_id: str | None, parent_id: str | None
) -> CopiedEvents:
    """Write the first `lines` lines of a log to a new one, which is there as a whole or not at all.

    Both are folders of sessions, or files of logs in them. Lines keep their numbers and payloads; they get the new
    session's id, unless that is None, and, in a hashed log, new hashes; those of a published log are masked. Blobs
    never change, so that they are hard links. A missing blob is reported, and missing in the copy too. Raises
    FileExistsError if there is such a log, OSError when something cannot be written.
    """
    from amplifier_kit.log.files import LogFiles
    from amplifier_kit.log.reader import LogReader

    files = LogFiles.at(target)
    if files.active.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(files.active))
    copied = CopiedEvents()
    blobs = _Blobs(LogFiles.at(source).blobs, files.blobs, copied)
    layout = _Layout(session_id, parent_id)
    fresh = files.active.with_name(f"{files.active.name}.{os.getpid()}.{time.monotonic_ns():x}.tmp")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            # Lines without a record were reported when the lines were counted.
            with closing(LogReader(source, lambda torn: None)) as original:
                for line in islice(original.poll(), lines):
                    file.write(layout.line(line) + b"\n")
                    copied.lines += 1
                    if b'"$blob"' in line.raw:
                        blobs.copy(line.record)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, files.active)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    return copied


class _Layout:
    """Encode the lines of the copy."""

    def __init__(self, session_id: str | None, parent_id: str | None) -> None:
        self._session_id = session_id
        self._parent_id = parent_id
        self._before = b""
        self._seq = 0

    def line(self, line: LogLine) -> bytes:
        record = dict(line.record)
        data = record.get("data")
        in_data = isinstance(data, dict) and "session_id" in data  # where published logs have it
        if self._session_id is not None:
            if isinstance(data, dict) and in_data:
                record["data"] = {**data, "session_id": self._session_id}
            if "session_id" in record or not in_data:
                record["session_id"] = self._session_id
        if self._parent_id is not None:
            record["parent_session_id"] = self._parent_id
        seq = line.seq
        self._before = self._unnumbered(record) if seq is None else self._numbered(record, seq)
        return self._before

    def _numbered(self, record: dict[str, Any], seq: int) -> bytes:
        from amplifier_kit.log.record import compose, digest, encode

        seq = max(seq, self._seq + 1)
        # Lines that the original lost, or that were deleted with rotated files, count as dropped.
        dropped, self._seq = seq - self._seq - 1, seq
        prev = digest(self._before) if "prev" in record else None
        return compose(record, seq, dropped, prev, lambda: "", encode)

    def _unnumbered(self, record: dict[str, Any]) -> bytes:
        from amplifier_kit.guard.private_files import masked
        from amplifier_kit.log.record import encode

        # Our own logs are masked, and hashed as they are; a published one may have been written without redaction.
        return masked(b"{%b}" % b", ".join(b"%b: %b" % (encode(key), encode(value)) for key, value in record.items()))


class _Blobs:
    """Copy the blobs that lines refer to, directly or through other blobs, from one folder to another."""

    def __init__(self, source: Path, target: Path, copied: CopiedEvents) -> None:
        from amplifier_kit.log.blobs import BlobStore

        self._source = BlobStore(source)
        self._target = BlobStore(target)
        self._copied = copied
        self._seen: set[str] = set()

    def copy(self, value: Any) -> None:
        """Copy everything that a value refers to."""
        from amplifier_kit.log.blobs import BlobError
        from amplifier_kit.log.record import decode
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
        except OSError:  # another file system, or one without hard links
            import shutil

            shutil.copyfile(original, path)
            path.chmod(0o600)
        self._copied.blobs += 1


# -- running sessions --


def is_running(folder: Path) -> bool:
    """Return whether a process runs the session in a folder; always False for sessions of the published program."""
    import fcntl

    from amplifier_kit.log.files import LogFiles

    try:
        descriptor = os.open(LogFiles(folder).lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # running a session creates this file
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # the file system has no locks
    finally:
        os.close(descriptor)
    return False


@contextmanager
def lock_session(folder: Path, action: str) -> Iterator[None]:
    """Keep other processes from running a session; raises SessionRunningError, which names `action`, and OSError."""
    from amplifier_kit.log.files import LogFiles, LogLock, SessionLogBusy

    files = LogFiles(folder)
    try:
        lock = LogLock(files.lock, files.active)
    except SessionLogBusy as error:
        who = "another process" if error.pid is None else f"process {error.pid}"
        raise SessionRunningError(
            f"session {folder.name} cannot be {action} while {who} runs or deletes it: wait for it, or end it"
        ) from error
    try:
        yield
    finally:
        lock.release()


def append_event(folder: Path, event: str, data: Mapping[str, Any]) -> None:
    """Write an event to the log of a session that no process runs.

    Raises SessionLogBusy if another process runs it.
    """
    from amplifier_kit.log.writer import SessionLog

    record = {"lvl": "INFO", "event": event, "session_id": folder.name, "component": "app", "data": dict(data)}
    with SessionLog(folder) as log:
        log.write(record)


# -- logs of processes that end without closing them, as when the event loop is blocked --


def end_log(log: SessionLog, folder: Path) -> None:
    """Write the end events that an open log lacks, as those of a cancelled session, and close it.

    It needs no event loop and may be called from any thread; the session cannot write meanwhile. A log that
    cannot be read is closed as it is, with a warning.
    """
    try:
        log.close_with(lambda: missing_ends(folder))
    except (OSError, ValueError) as error:
        logger.warning("The log in %s cannot be closed with what it lacks: %s", folder, error)


def missing_ends(folder: Path) -> list[dict[str, Any]]:
    """Return the records that end what a session's log has begun; raises OSError and ValueError."""
    from amplifier_kit.log.open_work import TRACKED, OpenWork
    from amplifier_kit.log.reader import read_log
    from amplifier_kit.log.record import IDS

    ends: list[dict[str, Any]] = []
    now = [0.0]
    work = OpenWork("app", lambda event, data: ends.append(_record(event, data)), lambda: "cancelled", lambda: now[0])
    for line in read_log(folder, on_torn=lambda torn: None):
        now[0] = (milliseconds(line.ts) or now[0] * 1000) / 1000
        if line.event in TRACKED:
            ids = {key: line.get(key) for key in IDS if line.get(key) is not None}
            work.note(line.event, {**line.data, **ids})
    ends.clear()  # what an earlier process left open is the past of a session that was resumed since
    work.end()
    return ends


def _record(event: str, data: dict[str, Any]) -> dict[str, Any]:
    from amplifier_kit.log.record import FACTS, IDS

    keys = {*IDS, *FACTS, "error"}  # the keys of a line that are not part of its payload
    is_error = "error" in data or "error" in event
    top = {key: value for key, value in data.items() if key in keys}
    rest = {key: value for key, value in data.items() if key not in keys}
    return {"lvl": "ERROR" if is_error else "WARNING", "event": event, "component": "app", **top, "data": rest}


# -- what Python logs in a session --


class PythonLog(logging.Handler):
    """Write the records that code of one session logs; those of other sessions and of the app are not its own."""

    def __init__(self, coordinator: Any) -> None:
        super().__init__(logging.WARNING)
        self._coordinator = coordinator

    def connect(self) -> None:
        logging.getLogger().addHandler(self)

    def disconnect(self) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; it is shown as well if nothing else shows it."""
        self._show_alone(record)
        scope = current_scope()
        is_own = scope is not None and scope.owner is self._coordinator
        if not is_own or getattr(record, "is_in_session_log", False):
            return
        data: dict[str, Any] = {"logger": record.name}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            from amplifier_foundation.tracebacks import error_record

            data["error"] = error_record(error)
        try:
            self._coordinator.log(record.levelname, record.getMessage(), **data)
        except Exception:
            self.handleError(record)

    def _show_alone(self, record: logging.LogRecord) -> None:
        """Do what Python does without any handler: this one must not make warnings invisible."""
        handlers, shown = logging.getLogger().handlers, logging.lastResort
        if shown is not None and handlers[:1] == [self] and all(isinstance(one, PythonLog) for one in handlers):
            shown.handle(record)
