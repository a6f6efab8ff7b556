"""Find out how a session ended without reading its log: its last lines say it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from amplifier_app_cli.children.ending import BEGUN, CLOSED, Ending, child_of, own_ending, settled, told_ending

#: How many bytes from the end are looked at, first and at most: a result may be a long line.
_FIRST: Final = 8_192
_MOST: Final = 1 << 20


class LastWords:
    """Find the ends of sessions of one list; what a parent says is read once for all of its children."""

    def __init__(self) -> None:
        self._told: dict[Path, dict[str, Ending]] = {}

    def ending(self, folder: Path, parent: Path | None = None) -> Ending | None:
        """Return how the session in a folder ended; None when it has no log and nobody tells.

        Of a child that was stopped, never began, or said no last word, the log of its parent is asked: it knows of
        deadlines, and of modules that were missing.
        """
        from amplifier_foundation.sessions.log import is_running

        is_begun, own = _last_of(folder)
        if own is not None and is_begun and own.word != "cancelled":
            return _judged(folder) or own if own.is_well and parent is not None else own
        told = self._told_by(parent).get(folder.name) if parent is not None else None
        if own is None and told is None and not is_begun and not (parent is not None and _has_log(folder)):
            return None
        return settled(own, told, is_begun=is_begun, is_running=own is None and is_running(folder))

    def _told_by(self, parent: Path) -> dict[str, Ending]:
        if parent not in self._told:
            self._told[parent] = _told(parent)
        return self._told[parent]


def _has_log(folder: Path) -> bool:
    """Tell whether somebody began to write a log, be it without a line."""
    return os.path.exists(folder / "events.jsonl")


def _judged(folder: Path) -> Ending | None:
    """Return how the task ended of a child that came to its end: without a budget, for example, not as it should."""
    from amplifier_foundation.children.results import FINAL, last_result

    result = last_result(folder) or {}
    status, known = str(result.get("status") or FINAL[0]), result.get("metadata")
    if status == FINAL[0]:
        return None
    reason = known.get("reason") if isinstance(known, dict) else None
    event = "delegate:agent_completed" if status in FINAL else "delegate:error"
    return told_ending(event, {"status": status, "error": reason})


def _last_of(folder: Path) -> tuple[bool, Ending | None]:
    """Return whether a session began, and its last word, None when it has said none.

    One of which nobody can tell without reading it all has begun.
    """
    size = _FIRST
    while True:
        lines, is_whole = _tail(folder / "events.jsonl", size)
        own: Ending | None = None
        for line in reversed(lines):
            record = _record(line) or {}
            if record.get("event") in BEGUN:
                return True, own
            if own is None and record.get("event") == "session:end":
                own = own_ending({**_data(record), **record})
        if own is not None:
            return not is_whole, own
        if is_whole or size >= _MOST:
            return bool(lines), None
        size *= 8


def _tail(path: Path, size: int) -> tuple[list[bytes], bool]:
    """Return the last lines of a file, and whether those are all."""
    try:
        with open(path, "rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(max(length - size, 0))
            lines = file.read().splitlines()
    except OSError:
        return [], True
    return (lines, True) if length <= size else (lines[1:], False)


def _told(folder: Path) -> dict[str, Ending]:
    from amplifier_kit.log import read_log

    found: dict[str, Ending] = {}
    try:
        for line in read_log(folder, on_torn=lambda torn: None):
            if line.event in CLOSED and (child := child_of(line.data)) is not None:
                found[child] = told_ending(line.event, {**line.data, **line.record})
    except OSError:
        pass  # then nobody tells, which is known of sessions without a parent too
    return found


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None  # cut short by a crash, or by where reading began
    return record if isinstance(record, dict) else None


def _data(record: dict[str, Any]) -> dict[str, Any]:
    data = record.get("data")
    return data if isinstance(data, dict) else {}
