"""Tell the time the way every event and record states it."""

from __future__ import annotations

from datetime import UTC, datetime
from time import time_ns

#: The second last asked about, and its text: events come in bursts, and formatting a date costs more than the rest.
_second = (0, "")


def timestamp() -> str:
    """Return now as UTC ISO 8601 with microseconds, ending `+00:00`."""
    global _second
    seconds, nanoseconds = divmod(time_ns(), 1_000_000_000)
    known, text = _second
    if seconds != known:
        text = datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
        _second = (seconds, text)
    return f"{text}.{nanoseconds // 1000:06d}+00:00"
