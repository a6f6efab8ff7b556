"""Read the times in logs and messages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def milliseconds(stamped: Any) -> int | None:
    """Return a time in milliseconds, cut as messages have them: a line is never later than the message it made."""
    if not isinstance(stamped, str):
        return None
    try:
        moment = datetime.fromisoformat(stamped)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000) // 1000
