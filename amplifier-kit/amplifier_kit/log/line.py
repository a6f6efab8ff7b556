"""One line of a log, as it stands there and as it is meant.

Lines of the published logger are understood too: no `seq`, ids and the time of the emit inside `data`, `msg` for
`message`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amplifier_kit.log.record import FACTS, IDS, Record, normal_error
from amplifier_kit.log.spine import Expansion

_LIFTED = frozenset({"timestamp", *IDS, *FACTS})


class LogLine:
    """One line of a log; `record` is what stands there, the properties are what it means."""

    __slots__ = ("_expansion", "number", "offset", "path", "raw", "record")

    def __init__(self, record: Record, raw: bytes, path: Path, number: int, offset: int, expansion: Expansion) -> None:
        self.record = record
        #: The bytes of the line, without its end.
        self.raw = raw
        self.path = path
        #: Counted from 1 in its file.
        self.number = number
        self.offset = offset
        self._expansion = expansion

    @property
    def event(self) -> str:
        """The event's name."""
        return str(self.record["event"])

    @property
    def seq(self) -> int | None:
        """The line's number in the session; None in published logs."""
        seq = self.record.get("seq")
        return seq if isinstance(seq, int) else None

    @property
    def ts(self) -> str | None:
        """When the event was emitted; published logs may know that only in `data`."""
        emitted = self._payload.get("timestamp") if self.seq is None else None
        found = emitted if isinstance(emitted, str) else self.record.get("ts")
        return found if isinstance(found, str) else None

    @property
    def level(self) -> str:
        """DEBUG, INFO, WARNING or ERROR."""
        return str(self.record.get("lvl") or "INFO")

    @property
    def session_id(self) -> str | None:
        """The session's id."""
        found = self.get("session_id")
        return found if isinstance(found, str) else None

    def get(self, key: str) -> Any:
        """Return an id or a fact of the line, wherever its writer put it; None when it is not there."""
        found = self.record.get(key)
        return self._payload.get(key) if found is None and self.seq is None else found

    @property
    def data(self) -> dict[str, Any]:
        """The event's own payload, short: large values are references. See `resolved`."""
        if self.seq is not None:
            return self._payload
        return {key: value for key, value in self._payload.items() if key not in _LIFTED}

    @property
    def error(self) -> dict[str, Any] | None:
        """The error, with its `message`, short; None when there is none."""
        error = self.record.get("error")
        return None if error is None else normal_error(error)

    def resolved(self) -> dict[str, Any]:
        """Return the payload whole: blobs and lists are looked up now.

        Raises LookupError when one of them is missing or damaged.
        """
        full: dict[str, Any] = self.expand(self.data)
        return full

    def resolved_error(self) -> dict[str, Any] | None:
        """Return the error whole; raises like `resolved`."""
        full: dict[str, Any] | None = self.expand(self.error)
        return full

    def expand(self, value: Any) -> Any:
        """Return any value of this line whole; raises like `resolved`."""
        return self._expansion.full(value)

    @property
    def _payload(self) -> dict[str, Any]:
        data = self.record.get("data")
        return data if isinstance(data, dict) else {}

    def __repr__(self) -> str:
        return f"<LogLine {self.seq} {self.event} at {self.path.name}:{self.number}>"
