"""Choose the view of a conversation for a request: all of it, or a compacted beginning and the rest.

A view depends on the conversation and the room alone. It is also stable: between two compactions a longer conversation
gives the same view plus the new messages, so that the provider's prompt cache stays valid. Therefore the compacted part
does not end at the end of the conversation, but at the last mark at which the conversation, compacted each time, would
have become too large.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from amplifier_kit.engine.context.compaction import Compacted, compact
from amplifier_kit.engine.context.config import ContextConfig
from amplifier_kit.engine.context.conversation import Conversation

__all__ = ["Room", "Views"]

#: How many marks are tried before the whole conversation is compacted.
_MARKS: Final = 4
_REMEMBERED: Final = 8


class Room(NamedTuple):
    """The token budget of a request and how it is divided."""

    #: The whole request.
    budget: int
    #: The budget without the reserve for the compaction notice.
    effective: int
    #: Tokens of the system part.
    system: int
    #: Above this many tokens the conversation is compacted.
    threshold: int
    #: Tokens of conversation after a compaction.
    target: int

    @property
    def limit(self) -> int:
        """Return the tokens of conversation that can be sent at all."""
        return self.budget - self.system

    @classmethod
    def within(cls, budget: int, system: int, settings: ContextConfig) -> Room:
        """Divide a budget as the settings say.

        The target is a share of the budget, the system part included. When that part is large, the conversation still
        keeps a third of what it may take: long instructions must not cost the whole history.
        """
        reserve = settings.compaction_notice_token_reserve if settings.compaction_notice_enabled else 0
        effective = max(budget - reserve, budget // 2)
        threshold = max(int(effective * settings.compact_threshold) - system, 0)
        target = max(int(effective * settings.target_usage) - system, threshold // 3)
        return cls(budget, effective, system, threshold, min(target, threshold))


class Views:
    """Find the compacted beginning of a conversation; the latest ones are cached."""

    def __init__(self, settings: ContextConfig) -> None:
        self._settings = settings
        self._known: dict[tuple[Room, int], Compacted] = {}
        self._epoch = -1

    def forget(self) -> None:
        """Clear the cache, for another conversation."""
        self._known.clear()

    def find(self, talk: Conversation, room: Room) -> Compacted | None:
        """Return the beginning to compact and its compacted form; None when the conversation fits as it is.

        When nothing makes it fit, the result with the messages after it exceeds `room.limit`.
        """
        if talk.total <= room.threshold:
            return None
        if talk.epoch != self._epoch:
            self._epoch = talk.epoch
            self.forget()
        end = self._last_mark(talk, room)
        for _ in range(_MARKS):
            if end >= len(talk):
                break
            found = self._compacted(talk, end, room)
            rest = talk.total - talk.total_until(end)
            if found.tokens + rest <= room.threshold:
                return found
            if found.tokens > room.threshold:
                break
            end = talk.unit_end(talk.first_beyond(room.threshold - found.tokens + talk.total_until(end)))
        return self._compacted(talk, len(talk), room)

    def _last_mark(self, talk: Conversation, room: Room) -> int:
        """Return where the conversation last grew by what a compaction had made room for."""
        step = room.threshold - room.target
        if step <= 0:
            return len(talk)
        steps = (talk.total - room.threshold - 1) // step
        return talk.unit_end(talk.first_beyond(room.threshold + steps * step))

    def _compacted(self, talk: Conversation, end: int, room: Room) -> Compacted:
        known = self._known.get((room, end))
        if known is not None:
            return known
        made = compact(talk, end, self._settings, goal=room.target, window=room.effective, limit=room.limit)
        while len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[room, end] = made
        return made
