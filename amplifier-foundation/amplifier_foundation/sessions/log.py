"""Tell which messages of a conversation existed at which line of its log, and where in the log a turn ends.

The loop announces a message by the event that makes it: `prompt:submit` the user's, `provider:response` the
assistant's, `tool:post` or `tool:error` the result of a call. From that line on the message counts as there, although
it may reach the context a moment later: whoever goes on from that event goes on with what it brought.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sessions.turns import message_text, turn_boundaries
from amplifier_foundation.timestamps import milliseconds
from amplifier_kit.engine.pairing import is_tool_result, tool_call_ids

if TYPE_CHECKING:
    from amplifier_kit.log import LogLine, TornLine

__all__ = [
    "CopiedEvents",
    "EventNotFoundError",
    "Outline",
    "Placed",
    "copy_events",
    "messages_at",
    "place_messages",
    "read_outline",
]

_SUBMIT: Final = "prompt:submit"
_REQUEST: Final = "provider:request"
_RESPONSE: Final = "provider:response"
_LLM_RESPONSE: Final = "llm:response"
_OPENED: Final = "tool:pre"
_CLOSED: Final = frozenset({"tool:post", "tool:error"})
_STEERED: Final = "orchestrator:steering_injected"
_MARKED: Final = frozenset({_SUBMIT, _REQUEST, _RESPONSE, _LLM_RESPONSE, _OPENED, _STEERED}) | _CLOSED
#: What surrounds turns and belongs to none.
_BETWEEN: Final = ("session:", "cleanup:", "execution:start")
#: Before the first line: of messages that are older than the log.
BEFORE: Final = -1


class EventNotFoundError(FoundationError):
    """The log has no line of that number."""

    code = "event_not_found"


class Mark(NamedTuple):
    """One line that makes a message, or helps to tell which one: its place in the log, counted from 0."""

    place: int
    event: str
    at: int | None
    turn: str | None
    call: str | None = None
    prompt: str | None = None


@dataclass
class Outline:
    """Hold what a log says about the messages of its session, without the lines themselves."""

    lines: int = 0
    marks: list[Mark] = field(default_factory=list)
    #: The time of each line, in milliseconds.
    times: list[int | None] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)
    _between: set[int] = field(default_factory=set)

    def note(self, line: LogLine) -> None:
        """Take in the next line."""
        place = self.lines
        self.lines += 1
        if (seq := line.seq) is not None:
            self._places[seq] = place
        turn = line.get("turn_id")
        if isinstance(turn, str):
            self._ends[turn] = place
        at = milliseconds(line.ts)
        self.times.append(at)
        event = line.event
        if event.startswith(_BETWEEN):
            self._between.add(place)
        if event in _MARKED:
            self.marks.append(Mark(place, event, at, turn, _call_of(line), _prompt_of(line)))

    def place_of(self, seq: int) -> int:
        """Return the place of the line numbered `seq`; in a published log, which has no numbers, lines count from 1.

        Raises EventNotFoundError.
        """
        if self._places:
            if (place := self._places.get(seq)) is not None:
                return place
            there = f"events {min(self._places)} to {max(self._places)}"
        elif 1 <= seq <= self.lines:
            return seq - 1
        else:
            there = f"events 1 to {self.lines}" if self.lines else "no events"
        raise EventNotFoundError(f"event {seq} does not exist: the log has {there}")

    def responses(self) -> list[Mark]:
        """Return the lines that answers came with: the loop's, else the provider's own."""
        found = [mark for mark in self.marks if mark.event == _RESPONSE]
        return found or [mark for mark in self.marks if mark.event == _LLM_RESPONSE]

    def makers(self) -> list[Mark]:
        """Return the lines that messages come with."""
        answers = set(map(id, self.responses()))
        return [mark for mark in self.marks if mark.event in _CLOSED or mark.event == _SUBMIT or id(mark) in answers]

    def end_of_turn(self, submit: Mark, limit: int) -> int:
        """Return the place behind the last line of a turn; `limit` is where the next one begins."""
        if submit.turn is not None:
            return min(self._ends[submit.turn] + 1, limit)
        while limit - 1 > submit.place and limit - 1 in self._between:
            limit -= 1
        return limit

    def behind(self, at: int) -> int:
        """Return the place behind the last line that was written by then; lines without a time count as earlier."""
        times, last = [], 0
        for time in self.times:
            last = max(last, time or 0)
            times.append(last)
        return bisect_right(times, at)


@dataclass(frozen=True)
class Placed:
    """Say of each message which line it came with, and of each turn which prompt it is."""

    #: BEFORE for messages that are older than the log. Messages other than results are in order.
    places: list[int]
    #: None for a turn that the log does not know.
    submits: list[Mark | None]

    def lines_of_turn(self, messages: Sequence[Mapping[str, Any]], outline: Outline, turn: int) -> int:
        """Return how many lines of the log there were when a turn, counted from 1, had ended."""
        following = next((mark for mark in self.submits[turn:] if mark is not None), None)
        limit = outline.lines if following is None else following.place
        submit = self.submits[turn - 1]
        if submit is not None:
            return outline.end_of_turn(submit, limit)
        # The log does not say which lines these are: go by the time of the last message that has one.
        end = [*turn_boundaries(messages)[turn:], len(messages)][0]
        times = [at for message in messages[:end] if (at := message_time(message)) is not None]
        return min(outline.behind(max(times)), limit) if times else 0

    def lines_until_news(self, outline: Outline) -> int:
        """Return how many lines there are before the first one that brings a message which is not among these.

        The log of a session that is running, or was killed, is ahead of its conversation.
        """
        last = max(self.places, default=BEFORE)
        return next((mark.place for mark in outline.makers() if mark.place > last), outline.lines)


def read_outline(location: Path) -> Outline:
    """Read a session's log, which may be being written; lines that hold no record are reported in `problems`."""
    from amplifier_kit.log import read_log

    outline = Outline()

    def tell(torn: TornLine) -> None:
        outline.problems.append(f"{torn.path}:{torn.number} holds no record and was left out ({torn.length} bytes)")

    for line in read_log(location, tell):
        outline.note(line)
    return outline


def messages_at(messages: Sequence[Mapping[str, Any]], outline: Outline, place: int) -> list[int]:
    """Return the positions of the messages that were there at a line of the log, that line included."""
    return [position for position, made in enumerate(place_messages(messages, outline).places) if made <= place]


def place_messages(messages: Sequence[Mapping[str, Any]], outline: Outline) -> Placed:
    """Find the line that each message came with.

    A message without one of its own (what a hook injected, what a repair made up) came with the message before it.
    """
    starts = turn_boundaries(messages)
    submits = _matched([messages[start] for start in starts], outline)
    begins = [outline.lines if mark is None else mark.place for mark in submits]
    for turn in range(len(begins) - 2, -1, -1):  # a turn unknown to the log ends where the next known one begins
        begins[turn] = min(begins[turn], begins[turn + 1])
    places: list[int] = [BEFORE] * (starts[0] if starts else len(messages))
    reached = BEFORE
    by_turn = _Turns(outline)
    for turn, start in enumerate(starts):
        last = turn + 1 == len(starts)
        end, limit = (len(messages), outline.lines) if last else (starts[turn + 1], begins[turn + 1])
        submit = submits[turn]
        if submit is None:
            places += [reached] * (end - start)
            continue
        placed = by_turn.place(messages[start:end], submit, limit, max(reached, submit.place))
        places += placed
        reached = max(placed)
    return Placed(places, submits)


def _matched(asked: Sequence[Mapping[str, Any]], outline: Outline) -> list[Mark | None]:
    """Find the prompt of each turn: by its words and its time, as far as both are known, and always in order."""
    submits = [mark for mark in outline.marks if mark.event == _SUBMIT]
    times = [message_time(message) for message in asked]
    if len(submits) == len(asked) and all(
        at is None or _is_by(submit, at) for submit, at in zip(submits, times, strict=True)
    ):
        return list(submits)  # as in every session that nothing was denied, cleared or lost in
    requested = [mark.place for mark in outline.marks if mark.event in (_REQUEST, _RESPONSE, _LLM_RESPONSE)]
    matched: list[Mark | None] = []
    free = 0
    for message in asked:
        found = _match(message, submits, free, requested)
        matched.append(None if found is None else submits[found])
        free = free if found is None else found + 1
    return matched


def _match(message: Mapping[str, Any], submits: list[Mark], free: int, requested: list[int]) -> int | None:
    text, at = message_text(message), message_time(message)
    rest = range(free, len(submits))
    if at is not None:
        if free + 1 < len(submits) and submits[free].prompt == text and not _is_by(submits[free + 1], at):
            return free  # by far the most common case
        by_then = [index for index in rest if _is_by(submits[index], at)]
        if found := [index for index in by_then if submits[index].prompt == text] or by_then:
            # The last one; of several in its millisecond, the first that was answered.
            return _taken([index for index in found if submits[index].at == submits[found[-1]].at], submits, requested)
    same = [index for index in rest if submits[index].prompt == text]
    return _taken(same if same or at is not None else list(rest), submits, requested)


def _taken(found: list[int], submits: list[Mark], requested: list[int]) -> int | None:
    """Return the first prompt after which a model was asked, else the first: one that a hook denied has no message."""
    for index in found:
        following = bisect_right(requested, submits[index].place)
        end = submits[index + 1].place if index + 1 < len(submits) else None
        if following < len(requested) and (end is None or requested[following] < end):
            return index
    return found[0] if found else None


def _is_by(mark: Mark, at: int) -> bool:
    return mark.at is None or mark.at <= at


class _Turns:
    """Place the messages of one turn after the other."""

    def __init__(self, outline: Outline) -> None:
        self._responses = outline.responses()
        self._opened = [mark for mark in outline.marks if mark.event == _OPENED]
        self._closed = [mark for mark in outline.marks if mark.event in _CLOSED]
        self._steered = [mark for mark in outline.marks if mark.event == _STEERED]

    def place(self, messages: Sequence[Mapping[str, Any]], submit: Mark, limit: int, reached: int) -> list[int]:
        """Return the places of a turn's messages, the first of which came with `submit`; `limit` is the turn's end."""
        within = (submit.place, limit)
        closed = {mark.call: mark.place for mark in _between(self._closed, within)}
        opened = {mark.call: mark.place for mark in reversed(_between(self._opened, within))}
        answers = _answers(messages, _between(self._responses, within), {**closed, **opened})
        steered = iter(_between(self._steered, within))
        places: list[int] = []
        called = reached
        for position, message in enumerate(messages):
            own: int | None = None
            if is_tool_result(message):
                place = max(called, closed.get(str(message.get("tool_call_id")), called))
                places.append(place)
                reached = max(reached, place)
                continue
            if position in answers:
                own = answers[position]
            elif position and _source(message) == "steering":
                mark = next(steered, None)
                own = None if mark is None else mark.place
            called = reached = max(reached, reached if own is None else own)
            places.append(reached)
        return places


def _answers(
    messages: Sequence[Mapping[str, Any]], responses: list[Mark], calls: Mapping[str | None, int]
) -> dict[int, int]:
    """Return the place of each answer: one response for each in order, else by the calls it makes, else by its time."""
    spoken = [
        position
        for position, message in enumerate(messages)
        if message.get("role") == "assistant" and not _is_synthetic(message)
    ]
    if len(spoken) == len(responses):
        return {position: mark.place for position, mark in zip(spoken, responses, strict=True)}
    found: dict[int, int] = {}
    free = 0
    for position in spoken:
        rest = responses[free:]
        if not rest:
            break
        known = [calls[call] for call in tool_call_ids(messages[position]) if call in calls]
        at = message_time(messages[position])
        if known:
            fitting = [index for index, mark in enumerate(rest) if mark.place < min(known)]
        else:
            fitting = [index for index, mark in enumerate(rest) if at is not None and _is_by(mark, at)]
        chosen = fitting[-1] if fitting else 0
        found[position] = rest[chosen].place
        free += chosen + 1
    return found


def _between(marks: list[Mark], within: tuple[int, int]) -> list[Mark]:
    first = bisect_right(marks, within[0], key=lambda mark: mark.place)
    last = bisect_right(marks, within[1] - 1, key=lambda mark: mark.place)
    return marks[first:last]


def message_time(message: Mapping[str, Any]) -> int | None:
    """Return when a message was made, in milliseconds, None when it does not say."""
    metadata = message.get("metadata")
    stamped = metadata.get("timestamp") if isinstance(metadata, Mapping) else None
    return milliseconds(stamped or message.get("timestamp"))


def _call_of(line: LogLine) -> str | None:
    call = line.data.get("tool_call_id")
    return call if isinstance(call, str) else None


def _prompt_of(line: LogLine) -> str | None:
    if line.event != _SUBMIT:
        return None
    try:
        prompt = line.expand(line.data.get("prompt"))
    except LookupError:
        return None
    return prompt if isinstance(prompt, str) else None


def _source(message: Mapping[str, Any]) -> Any:
    metadata = message.get("metadata")
    return metadata.get("source") if isinstance(metadata, Mapping) else None


def _is_synthetic(message: Mapping[str, Any]) -> bool:
    metadata = message.get("metadata")
    return isinstance(metadata, Mapping) and metadata.get("synthetic") is True


# -- event_copy: Copy the beginning of one session's log into another's, so that the copy stands for itself. --


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
        from amplifier_kit.log.record import compose, digest, encode

        seq = max(seq, self._seq + 1)
        # Lines that the original has lost, or that were deleted with its oldest files, are accounted for.
        dropped, self._seq = seq - self._seq - 1, seq
        prev = digest(self._before) if "prev" in record else None
        return compose(record, seq, dropped, prev, lambda: "", encode)

    def _unnumbered(self, record: dict[str, Any]) -> bytes:
        from amplifier_kit.log.record import encode

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
        except OSError:  # another file system, or one without links
            import shutil

            shutil.copyfile(original, path)
            path.chmod(0o600)
        self._copied.blobs += 1
