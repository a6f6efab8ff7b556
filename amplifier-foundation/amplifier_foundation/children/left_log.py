"""End the log of a session whose process is gone: whoever started it says in it how it ended."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amplifier_foundation.children.ids import is_plain
from amplifier_foundation.sessions.log import milliseconds
from amplifier_kit.log import SessionLog, SessionLogBusy
from amplifier_kit.log.open_work import TRACKED, OpenWork
from amplifier_kit.log.record import FACTS, IDS

if TYPE_CHECKING:
    from amplifier_kit.log import LogLine

logger = logging.getLogger(__name__)

_BY: Final = "parent"
#: Of a line, what is not part of its payload.
_TOP: Final = frozenset({*IDS, *FACTS, "error"})


def end_left_log(folder: Path, blobs: Path, status: str) -> None:
    """Write the ends that the log of a session lacks, and those of the sessions it had at work, from below.

    A log that is whole stays as it is. So does one that cannot be read, or that another process writes; that is told.
    """
    try:
        _end(folder, blobs, status, set())
    except (OSError, ValueError, SessionLogBusy) as error:
        logger.warning("The log in %s cannot be closed for a session whose process is gone: %s", folder, error)


class Lacking(NamedTuple):
    """What the log of a session has the beginning of and not the end."""

    #: The lines that end it.
    ends: list[dict[str, Any]]
    #: The sessions below it that were at work.
    children: list[str]


def lacking_in(folder: Path, status: str, by: str) -> Lacking:
    """Read the log of a session and return what it lacks, told by whom and how the session has ended.

    Raises OSError and ValueError when it cannot be read.
    """
    from amplifier_kit.log import read_log

    ends: list[dict[str, Any]] = []
    now = [0.0]
    unended = OpenWork(by, lambda event, data: ends.append(_record(event, data)), lambda: status, lambda: now[0])
    for line in read_log(folder, on_torn=lambda torn: None):  # a torn last line is what a kill leaves
        now[0] = (milliseconds(line.ts) or now[0] * 1000) / 1000
        if line.event in TRACKED:
            unended.note(line.event, _told(line))
    ends.clear()  # what was overdue earlier is the past of a session that has gone on since
    children = unended.children
    unended.end()
    return Lacking(ends, children)


def _end(folder: Path, blobs: Path, status: str, seen: set[Path]) -> None:
    seen.add(folder)
    if not (folder / "events.jsonl").exists():
        return
    lacking = lacking_in(folder, status, _BY)
    for child in lacking.children:
        below = folder.parent / child
        if is_plain(child) and below not in seen:
            _end(below, blobs, status, seen)
    if not lacking.ends:
        return
    with SessionLog(folder, blobs=blobs) as log:
        for record in lacking.ends:
            log.write(record)


def _told(line: LogLine) -> dict[str, Any]:
    """Return an event as it was emitted: its payload with its ids."""
    return {**line.data, **{key: line.get(key) for key in IDS if line.get(key) is not None}}


def _record(event: str, data: dict[str, Any]) -> dict[str, Any]:
    is_error = "error" in data or "error" in event
    top = {key: value for key, value in data.items() if key in _TOP}
    rest = {key: value for key, value in data.items() if key not in _TOP}
    return {"lvl": "ERROR" if is_error else "WARNING", "event": event, "component": "app", **top, "data": rest}
