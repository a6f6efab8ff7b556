"""Take what a person says while a turn runs, and hand it to the model at the next good moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = ["Steer", "SteeringQueue", "SteeringQueueFull"]

LIMIT: Final = 100


class SteeringQueueFull(RuntimeError):
    """Report that too much waits already; the model has to get a word in first."""


class Steer(NamedTuple):
    """One thing a person said meanwhile."""

    content: str
    metadata: dict[str, Any]


class SteeringQueue:
    """Hold what waits, first in, first out. Calling it adds; it is the capability `session.steer`."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._waiting: deque[Steer] = deque()

    def __call__(self, content: str, metadata: Mapping[str, Any] | None = None) -> int:
        """Let `content` reach the model before its next step; return how many wait now.

        Raises ValueError for what is blank or no text, SteeringQueueFull when no more fits.
        """
        if not isinstance(content, str) or not content.strip():
            raise ValueError(f"session.steer: content must be a text that is not blank, got {content!r}")
        if len(self._waiting) >= self._limit:
            raise SteeringQueueFull(
                f"session.steer: {self._limit} messages wait already; try again after the next step"
            )
        self._waiting.append(Steer(content, dict(metadata or {})))
        return len(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Return what waits, oldest first."""
        return tuple(steer.content for steer in self._waiting)

    def take(self) -> Steer | None:
        """Return the oldest one, None when nothing waits."""
        return self._waiting.popleft() if self._waiting else None

    def clear(self) -> None:
        """Forget everything that waits."""
        self._waiting.clear()
