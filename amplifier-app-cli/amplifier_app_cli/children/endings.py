"""How child sessions ended: from their own last events, and from what their parent reports."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_kit.named_tuple import NamedTuple

#: Events of the tools that spawn child sessions.
SPAWNED: Final = ("delegate:agent_spawned", "delegate:agent_resumed", "task:agent_spawned", "task:agent_resumed")
CLOSED: Final = (
    "delegate:agent_completed",
    "delegate:agent_cancelled",
    "delegate:error",
    "task:agent_completed",
    "task:agent_cancelled",
    "task:error",
)
#: Events of a session that starts or is resumed.
STARTED: Final = ("session:start", "session:resume")
#: Events that say how the turns of a session end.
TURN_EVENTS: Final = ("execution:start", "provider:response", "provider:error", "orchestrator:complete")
#: Why a loop stops early, by the reason that it reports.
_STOPS: Final = {
    "max_iterations": "the limit of iterations was reached",
    "loop_detected": "the same calls brought the same results again and again",
}
#: The endings that sessions and tools report, by status.
_WORDS: Final = {
    "completed": "completed",
    "success": "completed",
    "ok": "completed",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "timeout": "timed out",
    "timed_out": "timed out",
    "crashed": "crashed",
    "incomplete": "incomplete",
}


class Ending(NamedTuple):
    """How a session ended, and why, if known.

    The word is completed, incomplete (with an answer, but before its work was done), failed, cancelled, timed out or
    crashed.
    """

    word: str
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        return self.word == "completed"


def child_of(data: Mapping[str, Any]) -> str | None:
    """Return the id of the child session that an event is about."""
    for key in ("sub_session_id", "child_session_id"):
        if isinstance(found := data.get(key), str) and found:
            return found
    return None


class LastTurn:
    """How the last turn of a session ended: a `session:end` says only whether the session completed."""

    def __init__(self) -> None:
        self._status: str | None = None
        self._why = self._refusal = ""

    def add(self, event: str | None, data: Mapping[str, Any]) -> None:
        """Take an event of the session, one of `TURN_EVENTS`."""
        if event == "orchestrator:complete":
            self._status, self._why = str(data.get("status")), _STOPS.get(str(data.get("reason")), "")
        elif event == "provider:error":
            self._refusal = _reason(data)
        else:  # another turn begins, or the model has answered after all
            self._status, self._why, self._refusal = None, "", ""

    def ending(self, last_word: Ending) -> Ending:
        """Return how a session with this `session:end` ended: a loop may return before its work is done."""
        word = "incomplete" if last_word.is_complete and self._status == "incomplete" else last_word.word
        if word not in ("incomplete", "failed"):
            return last_word
        return Ending(word, last_word.reason or self._why or self._refusal)


def own_ending(data: Mapping[str, Any]) -> Ending:
    """Return the ending in the `session:end` of a session."""
    status = data.get("status")
    return Ending(_WORDS.get(str(status), "failed") if status else "completed", _reason(data))


def reported_ending(event: str, data: Mapping[str, Any]) -> Ending:
    """Return the ending that the parent reports with one of the events of `CLOSED`."""
    reason = _reason(data)
    status = _WORDS.get(str(data.get("status"))) or _WORDS.get(_kind(data.get("error")))
    if status == "timed out" or _is_deadline(data):
        return Ending("timed out", reason)
    if event.endswith(":agent_cancelled"):
        return Ending("cancelled", reason)
    if event.endswith(":error") or data.get("success") is False:
        return Ending(status if status and status != "completed" else "failed", reason)
    return Ending(status or "completed", "" if status in (None, "completed") else reason)


def combine_endings(own: Ending | None, reported: Ending | None, *, is_begun: bool, is_running: bool = False) -> Ending:
    """Return how a child ended, from its own `session:end` and its parent's report; either may be missing.

    A child that started and has no `session:end` (or one written on recovery) crashed, unless it still runs or its
    parent knows better: it was stopped, or returned an answer.
    """
    if own is None and is_running:
        return Ending("running")
    if (own is None or own.word == "crashed") and is_begun and (reported is None or reported.word == "failed"):
        return Ending("crashed", reported.reason if reported is not None else "")
    if reported is None:
        return own or Ending("crashed", "it never began")
    if reported.reason or own is None:
        return reported
    return Ending(reported.word, own.reason if own.word == reported.word else "")


def _is_deadline(data: Mapping[str, Any]) -> bool:
    """Return whether an event reports a timeout."""
    return str(data.get("reason")) in ("timeout", "timed_out", "deadline") or data.get("timed_out") is True


def _kind(error: Any) -> str:
    if not isinstance(error, Mapping):
        return ""
    kind = str(error.get("code") or error.get("type") or "")
    return {"TimeoutError": "timeout", "CancelledError": "cancelled"}.get(kind, kind)


def _reason(data: Mapping[str, Any]) -> str:
    error = data.get("error")
    if isinstance(error, Mapping):
        return str(error.get("message") or error.get("msg") or error.get("type") or "")
    found = error or data.get("reason")
    return found if isinstance(found, str) else ""


#: How many bytes are read from the end, at first and at most: a result may be a long line.
_FIRST: Final = 8_192
_MOST: Final = 1 << 20


class EndingReader:
    """Find how sessions ended from the last lines of their logs; a parent's log is read once for all its children."""

    def __init__(self) -> None:
        self._reports: dict[Path, dict[str, Ending]] = {}

    def ending(self, folder: Path, parent: Path | None = None) -> Ending | None:
        """Return how the session in a folder ended; None if neither its own log nor its parent's says.

        For a child that was stopped, never started, or has no `session:end`, the parent's log is read: it knows of
        timeouts and missing modules.
        """
        from amplifier_foundation.sessions.log import is_running

        is_begun, own = _last_of(folder)
        if own is not None and is_begun and own.word != "cancelled":
            return _task_ending(folder) or own if own.is_complete and parent is not None else own
        reported = self._reports_of(parent).get(folder.name) if parent is not None else None
        if own is None and reported is None and not is_begun and not (parent is not None and _has_log(folder)):
            return None
        return combine_endings(own, reported, is_begun=is_begun, is_running=own is None and is_running(folder))

    def _reports_of(self, parent: Path) -> dict[str, Ending]:
        if parent not in self._reports:
            self._reports[parent] = _reports_in(parent)
        return self._reports[parent]


def _has_log(folder: Path) -> bool:
    """Return whether there is a log, even an empty one."""
    return os.path.exists(folder / "events.jsonl")


def _task_ending(folder: Path) -> Ending | None:
    """Return how the task of a completed child ended if not well, such as without budget; else None."""
    from amplifier_foundation.children.results import FINAL, last_result

    result = last_result(folder) or {}
    status, known = str(result.get("status") or FINAL[0]), result.get("metadata")
    if status == FINAL[0]:
        return None
    reason = known.get("reason") if isinstance(known, dict) else None
    event = "delegate:agent_completed" if status in FINAL else "delegate:error"
    return reported_ending(event, {"status": status, "error": reason})


def _last_of(folder: Path) -> tuple[bool, Ending | None]:
    """Return whether a session started, and the ending in its `session:end`, if any.

    A log too long to look through counts as started.
    """
    size = _FIRST
    while True:
        lines, is_whole = _tail(folder / "events.jsonl", size)
        own: Ending | None = None
        for line in reversed(lines):
            record = _record(line) or {}
            if record.get("event") in STARTED:
                return True, own
            if own is None and record.get("event") == "session:end":
                own = own_ending({**_data(record), **record})
        if own is not None:
            return not is_whole, own
        if is_whole or size >= _MOST:
            return bool(lines), None
        size *= 8


def _tail(path: Path, size: int) -> tuple[list[bytes], bool]:
    """Return the last lines of a file, and whether they are all its lines."""
    try:
        with open(path, "rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(max(length - size, 0))
            lines = file.read().splitlines()
    except OSError:
        return [], True
    return (lines, True) if length <= size else (lines[1:], False)


def _reports_in(folder: Path) -> dict[str, Ending]:
    from amplifier_kit.log.reader import read_log

    found: dict[str, Ending] = {}
    try:
        for line in read_log(folder, on_torn=lambda torn: None):
            if line.event in CLOSED and (child := child_of(line.data)) is not None:
                found[child] = reported_ending(line.event, {**line.data, **line.record})
    except OSError:
        pass  # as for a session without a parent
    return found


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None  # cut off by a crash, or by where reading started
    return record if isinstance(record, dict) else None


def _data(record: dict[str, Any]) -> dict[str, Any]:
    data = record.get("data")
    return data if isinstance(data, dict) else {}
