"""Count the events of a session's log, and copy the part of it that belongs to a turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from amplifier_foundation.files import make_private
from amplifier_foundation.session.files import StrPath, messages_of
from amplifier_foundation.session.turns import end_of_turn, get_turn_boundaries
from amplifier_foundation.sessions.log import (
    copy_events,
    lines_of_messages,
    message_timestamp,
    place_messages,
    read_outline,
)
from amplifier_foundation.timestamps import milliseconds
from amplifier_kit.log.reader import LogLine, read_log

__all__ = [
    "count_events",
    "get_event_summary",
    "get_last_timestamp_for_turn",
    "slice_events_for_fork",
    "slice_events_to_timestamp",
]

Message = dict[str, Any]


def count_events(events_path: StrPath) -> int:
    """Return the number of events in a log, given by its file or its session's folder; 0 if it is missing.

    Lines that hold no event are logged as warnings.
    """
    return sum(1 for _ in read_log(Path(events_path)))


def get_event_summary(events_path: StrPath) -> dict[str, Any]:
    """Return `total_events`, `event_types` (events by name, the most frequent first), and the first and last time.

    The times are `first_timestamp` and `last_timestamp`, None in a log without any.
    """
    names: Counter[str] = Counter()
    times: list[str] = []
    for line in read_log(Path(events_path)):
        names[line.event] += 1
        if line.ts is not None:
            times[1:] = [line.ts]
    return {
        "total_events": names.total(),
        "event_types": dict(names.most_common()),
        "first_timestamp": times[0] if times else None,
        "last_timestamp": times[-1] if times else None,
    }


def get_last_timestamp_for_turn(transcript: StrPath | Sequence[Message], turn: int) -> str | None:
    """Return the time of the last message of a turn that has one, as it is written; None if none has.

    `transcript` is the folder of a session, its transcript, or its messages. Raises TurnRangeError, a ValueError, for a
    missing turn, and what `load_transcript` raises.
    """
    messages = messages_of(transcript)
    end = end_of_turn(messages, turn)
    part = messages[get_turn_boundaries(messages)[turn - 1] : end]
    return next((found for message in reversed(part) if (found := message_timestamp(message)) is not None), None)


def slice_events_to_timestamp(
    events_path: StrPath,
    cutoff_timestamp: str | datetime,
    output_path: StrPath,
    *,
    new_session_id: str | None = None,
    parent_session_id: str | None = None,
) -> int:
    """Copy a log up to a time, which is included, and return the number of events copied.

    The copy has the ids that are given, and the blobs beside it. Times without a zone are UTC. Raises ValueError for an
    invalid time, FileExistsError if `output_path` exists, OSError.
    """
    given = cutoff_timestamp.isoformat() if isinstance(cutoff_timestamp, datetime) else cutoff_timestamp
    end = milliseconds(given)
    if end is None:
        raise ValueError(f"invalid time {given!r}: expected ISO 8601, such as 2026-01-31T12:00:00+00:00")

    def is_by(line: LogLine) -> bool:
        at = milliseconds(line.ts)
        return at is None or at <= end

    lines = sum(1 for _ in takewhile(is_by, read_log(Path(events_path))))
    return _copied(events_path, lines, output_path, new_session_id, parent_session_id)


def slice_events_for_fork(
    events_path: StrPath,
    transcript_path: StrPath | Sequence[Message],
    turn: int,
    output_path: StrPath,
    *,
    new_session_id: str | None = None,
    parent_session_id: str | None = None,
) -> int:
    """Copy a log up to the end of a turn, and return the number of events copied.

    The line of each message is found by its number in the log, its call, its time (`metadata.timestamp`) or its order,
    so that the copy ends with the last event of the turn. It has the ids that are given, and the blobs beside it.
    Raises TurnRangeError, a ValueError, for a missing turn, FileExistsError if `output_path` exists, OSError, and what
    `load_transcript` raises.
    """
    messages = messages_of(transcript_path)
    end = end_of_turn(messages, turn)
    outline = read_outline(Path(events_path))
    lines = lines_of_messages(messages, end, place_messages(messages, outline), outline)
    return _copied(events_path, lines, output_path, new_session_id, parent_session_id)


def _copied(source: StrPath, lines: int, output: StrPath, session_id: str | None, parent_id: str | None) -> int:
    target = Path(output)
    make_private(target.parent)
    return copy_events(Path(source), target, lines, session_id=session_id, parent_id=parent_id).lines
