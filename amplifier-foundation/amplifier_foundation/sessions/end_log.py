"""Complete the log of a session whose process ends without closing it, as when its event loop is blocked."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.timestamps import milliseconds
from amplifier_kit.log import read_log
from amplifier_kit.log.open_work import TRACKED, OpenWork
from amplifier_kit.log.record import FACTS, IDS

if TYPE_CHECKING:
    from amplifier_kit.log import SessionLog

logger = logging.getLogger(__name__)

#: Keys of a line that are not part of its payload.
_TOP: Final = frozenset({*IDS, *FACTS, "error"})


def end_log(log: SessionLog, folder: Path) -> None:
    """Write the end events that an open log lacks, as those of a cancelled session, and close it.

    It needs no event loop and may be called from any thread; the session cannot write any more meanwhile. A log that
    cannot be read is closed as it is, with a warning.
    """
    try:
        log.close_with(lambda: missing_ends(folder))
    except (OSError, ValueError) as error:
        logger.warning("The log in %s cannot be closed with what it lacks: %s", folder, error)


def missing_ends(folder: Path) -> list[dict[str, Any]]:
    """Return the records that end what a session's log has begun; raises OSError and ValueError."""
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
    is_error = "error" in data or "error" in event
    top = {key: value for key, value in data.items() if key in _TOP}
    rest = {key: value for key, value in data.items() if key not in _TOP}
    return {"lvl": "ERROR" if is_error else "WARNING", "event": event, "component": "app", **top, "data": rest}
