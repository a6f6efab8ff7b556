"""Queue messages that the user sends while a turn runs, for the next model call."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.struct import FrozenStruct

__all__ = ["Steer", "SteeringQueue", "SteeringQueueFull"]

LIMIT: Final = 100


class SteeringQueueFull(RuntimeError):
    """The queue is full until the next model call."""


class Steer(FrozenStruct):
    """One queued message."""

    content: str
    metadata: dict[str, Any]


class SteeringQueue:
    """A first-in, first-out queue. Calling it adds a message; it is the capability `session.steer`."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._queue: deque[Steer] = deque()

    def __call__(self, content: str, metadata: Mapping[str, Any] | None = None) -> int:
        """Queue a message for the next model call; return how many are queued.

        Raises ValueError for anything but a text that is not blank, SteeringQueueFull when the queue is full.
        """
        if not isinstance(content, str) or not content.strip():
            raise ValueError(f"session.steer: content must be a text that is not blank, got {content!r}")
        if len(self._queue) >= self._limit:
            raise SteeringQueueFull(
                f"session.steer: {self._limit} messages are queued already; try again after the next step"
            )
        self._queue.append(Steer(content, dict(metadata or {})))
        return len(self._queue)

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Return the queued messages, oldest first."""
        return tuple(steer.content for steer in self._queue)

    def take(self) -> Steer | None:
        """Remove and return the oldest message, None when the queue is empty."""
        return self._queue.popleft() if self._queue else None

    def clear(self) -> None:
        """Remove all messages."""
        self._queue.clear()
