"""Compare what requests were estimated to take with what providers say they took."""

from __future__ import annotations

from math import ceil
from typing import Any, Final

from amplifier_kit.engine.context.messages import Message
from amplifier_kit.engine.usage import UsageRecord

__all__ = ["Meter"]

#: A response that took less than this share of the estimate answers some other, smaller request.
_PLAUSIBLE: Final = 0.25
_STEPS: Final = 20
_SLACK: Final = 0.1
_LARGEST: Final = 8.0


class Meter:
    """Learn from each answered request how far the estimates are off."""

    def __init__(self) -> None:
        #: How many real tokens one estimated token stands for, in coarse steps so that views stay steady.
        self.ratio = 1.0
        self._awaited: tuple[list[Message], int, int] | None = None
        self._measured: dict[str, Any] | None = None
        self._view: list[Message] = []

    def expect(self, messages: list[Message], estimated: int, budget: int) -> None:
        """Remember the request that the next response will answer."""
        self._awaited = (messages, estimated, budget)

    def record(self, answer: UsageRecord) -> None:
        """Learn from an answer; one without input tokens, or to a smaller request, is not to ours."""
        if self._awaited is None:
            return
        read, written = answer.input_tokens or 0, answer.cache_write_tokens or 0
        used = read + written
        messages, estimated, budget = self._awaited
        if used <= 0 or used < estimated * _PLAUSIBLE:
            return
        self._awaited = None
        self._view = messages
        self._measured = {
            "input_tokens": read,
            "cache_write_tokens": written,
            "measured_tokens": used,
            "estimated_tokens": estimated,
            "budget": budget,
        }
        self._adjust(used / max(estimated, 1))

    def usage(self) -> dict[str, Any] | None:
        """Return what the latest request of this conversation took, None before the first answer."""
        return None if self._measured is None else dict(self._measured)

    def view(self) -> dict[str, Any] | None:
        """Return the latest measured request: its messages, and what they took; None before the first answer."""
        return None if self._measured is None else {**self._measured, "messages": [dict(m) for m in self._view]}

    def _adjust(self, seen: float) -> None:
        if self.ratio - _SLACK <= seen <= self.ratio:
            return
        self.ratio = min(max(ceil(seen * _STEPS) / _STEPS, _PLAUSIBLE), _LARGEST)
