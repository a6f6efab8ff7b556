"""The log of a session beside its messages: which line made which message, where a turn ends, and copies of a log.

The loop announces a message by the event that makes it: `prompt:submit` the user's, `provider:response` the
assistant's, `tool:post` or `tool:error` the result of a call. From that line on the message counts as present, although
it reaches the context a moment later. While a session runs, `MessageNumbers` knows the line of each message, and the
transcript keeps its number (`event_seq` in the message's metadata).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sessions.turns import is_real_user_message, turn_boundaries
from amplifier_foundation.timestamps import milliseconds
from amplifier_kit.engine.pairing import is_tool_result, tool_call_ids

if TYPE_CHECKING:
    from amplifier_kit.log import LogLine, TornLine

__all__ = [
    "CopiedEvents",
    "EventNotFoundError",
    "MessageNumbers",
    "Outline",
    "Placed",
    "SessionRunningError",
    "copy_events",
    "event_seq",
    "is_running",
    "lock_session",
    "messages_at",
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


@dataclass
class Outline:
    """What a log says about the messages of its session, without the lines themselves."""

    lines: int = 0
    marks: list[Mark] = field(default_factory=list)
    #: The time of each line in milliseconds.
    times: list[int | None] = field(default_factory=list)
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
        at = milliseconds(line.ts)
        self.times.append(at)
        event = line.event
        if event.startswith(_BETWEEN):
            self._between.add(place)
        if event in _MARKED:
            call = line.data.get("tool_call_id")
            mark = Mark(place, event, at, turn, call if isinstance(call, str) else None)
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

    def after(self, at: int) -> int:
        """Return the place after the last line that was written by then; lines without a time count as earlier."""
        times, last = [], 0
        for time in self.times:
            last = max(last, time or 0)
            times.append(last)
        return bisect_right(times, at)


@dataclass(frozen=True)
class Placed:
    """The line of each message, and the prompt of each turn."""

    #: BEFORE for messages that are older than the log. Messages other than results are in order.
    places: list[int]
    #: None for a turn that the log does not have.
    submits: list[Mark | None]

    def lines_of_turn(self, messages: Sequence[Mapping[str, Any]], outline: Outline, turn: int) -> int:
        """Return how many lines the log had when a turn, counted from 1, had ended."""
        following = next((mark for mark in self.submits[turn:] if mark is not None), None)
        limit = outline.lines if following is None else following.place
        submit = self.submits[turn - 1]
        if submit is not None:
            return outline.end_of_turn(submit, limit)
        # The log does not have the prompt: use the time of the last message that has one.
        end = [*turn_boundaries(messages)[turn:], len(messages)][0]
        times = [at for message in messages[:end] if (at := message_time(message)) is not None]
        return min(outline.after(max(times)), limit) if times else 0

    def lines_until_next_message(self, outline: Outline) -> int:
        """Return how many lines there are before the first one that made a message which is not among these.

        The log of a session that runs, or was killed, is ahead of its transcript.
        """
        last = max(self.places, default=BEFORE)
        return next((mark.place for mark in outline.makers() if mark.place > last), outline.lines)


def read_outline(location: Path) -> Outline:
    """Read a session's log, which may be growing; lines without a record are reported in `problems`."""
    from amplifier_kit.log import read_log

    outline = Outline()

    def report(torn: TornLine) -> None:
        outline.problems.append(f"{torn.path}:{torn.number} has no record and was left out ({torn.length} bytes)")

    for line in read_log(location, report):
        outline.add(line)
    return outline


def messages_at(messages: Sequence[Mapping[str, Any]], outline: Outline, place: int) -> list[int]:
    """Return the positions of the messages that were present at a line of the log, that line included."""
    return [position for position, made in enumerate(place_messages(messages, outline).places) if made <= place]


def place_messages(messages: Sequence[Mapping[str, Any]], outline: Outline) -> Placed:
    """Find the line that made each message: by its number, else by order, call ids and time.

    A message without a line (injected by a hook, added by a repair) has the place of the message before it.
    """
    starts = turn_boundaries(messages)
    submits = _find_submits([messages[start] for start in starts], outline)
    begins = [outline.lines if mark is None else mark.place for mark in submits]
    for turn in range(len(begins) - 2, -1, -1):  # a turn that the log does not have ends where the next one begins
        begins[turn] = min(begins[turn], begins[turn + 1])
    places: list[int] = [BEFORE] * (starts[0] if starts else len(messages))
    reached = BEFORE
    turns = _Turns(outline)
    for turn, start in enumerate(starts):
        last = turn + 1 == len(starts)
        end, limit = (len(messages), outline.lines) if last else (starts[turn + 1], begins[turn + 1])
        submit = submits[turn]
        if submit is None:
            places += [reached] * (end - start)
            continue
        placed = turns.place(messages[start:end], submit, limit, max(reached, submit.place))
        places += placed
        reached = max(placed)
    return Placed(places, submits)


def _find_submits(prompts: Sequence[Mapping[str, Any]], outline: Outline) -> list[Mark | None]:
    """Find the `prompt:submit` of each turn, always in order."""
    submits = [mark for mark in outline.marks if mark.event == _SUBMIT]
    numbered = [outline.made(prompt, _SUBMIT) for prompt in prompts]
    if None in numbered and len(submits) == len(prompts):
        times = [message_time(prompt) for prompt in prompts]
        if all(at is None or _is_by(submit, at) for submit, at in zip(submits, times, strict=True)):
            return list(submits)  # as in every session without a denied, cleared or lost turn
    requests = [mark.place for mark in outline.marks if mark.event in (_REQUEST, _RESPONSE, _LLM_RESPONSE)]
    found: list[Mark | None] = []
    free = 0
    for prompt, made in zip(prompts, numbered, strict=True):
        index = _find_submit(prompt, made, submits, free, requests)
        found.append(None if index is None else submits[index])
        free = free if index is None else index + 1
    return found


def _find_submit(
    prompt: Mapping[str, Any], made: Mark | None, submits: list[Mark], free: int, requests: list[int]
) -> int | None:
    if made is not None:
        index = bisect_right(submits, made.place, key=lambda mark: mark.place) - 1
        if index >= free:
            return index
    candidates: Sequence[int] = range(free, len(submits))
    if (at := message_time(prompt)) is not None:
        by_then = list(takewhile(lambda index: _is_by(submits[index], at), candidates))
        # The last one by then; of several in its millisecond, the first that was accepted.
        candidates = [index for index in by_then if submits[index].at == submits[by_then[-1]].at]
    for index in candidates:  # a prompt that a hook denied is followed by no request, and made no message
        following = bisect_right(requests, submits[index].place)
        end = submits[index + 1].place if index + 1 < len(submits) else None
        if following < len(requests) and (end is None or requests[following] < end):
            return index
    return candidates[0] if candidates else None


def _is_by(mark: Mark, at: int) -> bool:
    return mark.at is None or mark.at <= at


class _Turns:
    """Place the messages of one turn after the other."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._responses = outline.responses()
        self._starts = [mark for mark in outline.marks if mark.event == _TOOL_START]
        self._ends = [mark for mark in outline.marks if mark.event in _TOOL_END]
        self._steered = [mark for mark in outline.marks if mark.event == _STEERED]

    def place(self, messages: Sequence[Mapping[str, Any]], submit: Mark, limit: int, reached: int) -> list[int]:
        """Return the places of a turn's messages, the first of which came with `submit`; `limit` is the turn's end."""
        within = (submit.place, limit)
        ended = {mark.call: mark.place for mark in _between(self._ends, within)}
        started = {mark.call: mark.place for mark in reversed(_between(self._starts, within))}
        answers = self._find_answers(messages, _between(self._responses, within), {**ended, **started})
        steered = iter(_between(self._steered, within))
        places: list[int] = []
        called = reached
        for position, message in enumerate(messages):
            if is_tool_result(message):
                place = max(called, ended.get(str(message.get("tool_call_id")), called))
                places.append(place)
                reached = max(reached, place)
                continue
            own = answers.get(position)
            if own is None and position and _is_steering(message):
                mark = self._outline.made(message, _STEERED) or next(steered, None)
                own = None if mark is None else mark.place
            called = reached = max(reached, reached if own is None else own)
            places.append(reached)
        return places

    def _find_answers(
        self, messages: Sequence[Mapping[str, Any]], responses: list[Mark], calls: Mapping[str | None, int]
    ) -> dict[int, int]:
        """Return the place of each answer: by its number, in order if all are there, else by its calls or its time."""
        spoken = [
            position
            for position, message in enumerate(messages)
            if message.get("role") == "assistant" and not _metadata(message).get("synthetic")
        ]
        numbered = [self._outline.made(messages[position], _RESPONSE, _LLM_RESPONSE) for position in spoken]
        if None in numbered and len(spoken) == len(responses):
            return {position: mark.place for position, mark in zip(spoken, responses, strict=True)}
        found: dict[int, int] = {}
        rest = responses
        for position, made in zip(spoken, numbered, strict=True):
            if made is None and rest:
                known = [calls[call] for call in tool_call_ids(messages[position]) if call in calls]
                at = message_time(messages[position])
                if known:
                    fitting = [mark for mark in rest if mark.place < min(known)]
                else:
                    fitting = [mark for mark in rest if at is not None and _is_by(mark, at)]
                made = fitting[-1] if fitting else rest[0]
            if made is not None:
                found[position] = place = made.place
                rest = [mark for mark in rest if mark.place > place]
        return found


def _between(marks: list[Mark], within: tuple[int, int]) -> list[Mark]:
    first = bisect_right(marks, within[0], key=lambda mark: mark.place)
    last = bisect_right(marks, within[1] - 1, key=lambda mark: mark.place)
    return marks[first:last]


def message_time(message: Mapping[str, Any]) -> int | None:
    """Return when a message was made, in milliseconds; None if it does not say."""
    return milliseconds(_metadata(message).get("timestamp") or message.get("timestamp"))


def _is_steering(message: Mapping[str, Any]) -> bool:
    return _metadata(message).get("source") == "steering"


def _metadata(message: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = message.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


# -- copies --


@dataclass
class CopiedEvents:
    """How much was copied, and what was missing in the original."""

    lines: int = 0
    blobs: int = 0
    problems: list[str] = field(default_factory=list)


def copy_events(source: Path, target: Path, lines: int, *, session_id: str, parent_id: str) -> CopiedEvents:
    """Write the first `lines` lines of the log in folder `source` to a new log in folder `target`.

    Lines keep their numbers and payloads; they get the new session's id and, in a hashed log, new hashes. Blobs never
    change, so that they are hard links. A missing blob is reported, and missing in the copy too. Raises OSError when
    something cannot be written.
    """
    from amplifier_kit.log import LogReader
    from amplifier_kit.log.files import LogFiles

    files = LogFiles(target)
    copied = CopiedEvents()
    blobs = _Blobs(LogFiles(source).blobs, files.blobs, copied)
    layout = _Layout(session_id, parent_id)
    descriptor = os.open(files.active, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        # Lines without a record were reported when the lines were counted.
        with closing(LogReader(source, lambda torn: None)) as original:
            for line in islice(original.poll(), lines):
                file.write(layout.line(line) + b"\n")
                copied.lines += 1
                if b'"$blob"' in line.raw:
                    blobs.copy(line.record)
        file.flush()
        os.fsync(file.fileno())
    return copied


class _Layout:
    """Encode the lines of the copy."""

    def __init__(self, session_id: str, parent_id: str) -> None:
        self._session_id = session_id
        self._parent_id = parent_id
        self._before = b""
        self._seq = 0

    def line(self, line: LogLine) -> bytes:
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
        from amplifier_kit.log.record import compose, digest, encode

        seq = max(seq, self._seq + 1)
        # Lines that the original lost, or that were deleted with rotated files, count as dropped.
        dropped, self._seq = seq - self._seq - 1, seq
        prev = digest(self._before) if "prev" in record else None
        return compose(record, seq, dropped, prev, lambda: "", encode)

    def _unnumbered(self, record: dict[str, Any]) -> bytes:
        from amplifier_kit.log.record import encode

        return b"{%b}" % b", ".join(b"%b: %b" % (encode(key), encode(value)) for key, value in record.items())


class _Blobs:
    """Copy the blobs that lines refer to, directly or through other blobs, from one folder to another."""

    def __init__(self, source: Path, target: Path, copied: CopiedEvents) -> None:
        from amplifier_kit.log import BlobStore

        self._source = BlobStore(source)
        self._target = BlobStore(target)
        self._copied = copied
        self._seen: set[str] = set()

    def copy(self, value: Any) -> None:
        """Copy everything that a value refers to."""
        from amplifier_kit.log import BlobError
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
