"""Tell the time the way every event and record states it."""

from __future__ import annotations

from datetime import UTC, datetime
from time import time_ns

#: The second last asked about, and its text: events come in bursts, and formatting a date costs more than the rest.
_second = (0, "")


def timestamp() -> str:
    """Return now as UTC ISO 8601 with microseconds, ending `+00:00`."""
    global _second
    microseconds = time_ns() // 1000
    second = microseconds // 1_000_000
    known, text = _second
    if second != known:
        text = datetime.fromtimestamp(second, UTC).isoformat()[:19]
        _second = (second, text)
    return f"{text}.{str(microseconds)[-6:]}+00:00"
