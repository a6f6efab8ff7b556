"""Keep what was said with everything that cutting it needs to know, at a constant cost per message."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, Final

from amplifier_kit.engine.context.messages import Message
from amplifier_kit.engine.pairing import tool_call_ids
from amplifier_kit.engine.tokens import estimate_tokens

__all__ = ["OTHER", "SYSTEM", "TOOL", "TRUNCATED_FLOOR", "USER", "Conversation"]

USER: Final = 0
TOOL: Final = 1
OTHER: Final = 2
#: What a hook injected into the system part in the course of the conversation.
SYSTEM: Final = 3

_KINDS: Final = {"user": USER, "tool": TOOL, "system": SYSTEM, "developer": SYSTEM}
#: No truncated tool result takes fewer tokens than this, or it was no larger before.
TRUNCATED_FLOOR: Final = 24
#: Messages with this in their metadata are never removed: the provider needs them to be there.
_PIN: Final = "openai:tool_search_items"
_REMINDER: Final = "<system-reminder"


class Conversation:
    """Hold messages in order as parallel lists, so that a cut over thousands of them is cheap.

    A unit is an assistant message with the results of its calls, or any other message alone: its `leader` is its first
    message. A result belongs to the nearest call of its id before it, wherever it stands; one without a call is a unit
    of its own.
    """

    __slots__ = (
        *("_calls", "_floors", "ends", "epoch", "kinds", "last_members", "leaders", "members"),
        *("messages", "pinned", "real_users", "systems", "tokens", "tools", "users"),
    )

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.tokens: list[int] = []
        #: Tokens of all messages up to and including this one.
        self.ends: list[int] = []
        self.kinds: list[int] = []
        self.leaders: list[int] = []
        #: For each leader the position of the last message of its unit.
        self.last_members: list[int] = []
        #: The units that have results: leader → positions.
        self.members: dict[int, list[int]] = {}
        self.pinned: set[int] = set()
        self.users: list[int] = []
        self.real_users: list[int] = []
        self.tools: list[int] = []
        self.systems: list[int] = []
        #: Counts changes to units that were complete before; what was derived from them is no longer good.
        self.epoch = 0
        self._calls: dict[str, int] = {}
        #: Like `ends`, with every tool result counted as if it were truncated already.
        self._floors: list[int] = []

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def total(self) -> int:
        """Return the tokens of everything."""
        return self.ends[-1] if self.ends else 0

    def total_until(self, end: int) -> int:
        """Return the tokens of the messages before position `end`."""
        return self.ends[end - 1] if end else 0

    def append(self, message: Message) -> None:
        """Add a message; the time depends on the message alone."""
        position = len(self.messages)
        tokens = estimate_tokens(message)
        kind = _KINDS.get(message["role"], OTHER)
        self.ends.append(self.total + tokens)
        floor = min(tokens, TRUNCATED_FLOOR) if kind == TOOL else tokens
        self._floors.append((self._floors[-1] if self._floors else 0) + floor)
        self.messages.append(message)
        self.tokens.append(tokens)
        self.kinds.append(kind)
        self.leaders.append(position)
        self.last_members.append(position)
        if kind == TOOL:
            self.tools.append(position)
            self._join(position, message)
        elif kind == USER:
            self.users.append(position)
            if _is_real(message):
                self.real_users.append(position)
        elif kind == SYSTEM:
            self.systems.append(position)
        else:
            for call_id in tool_call_ids(message):
                self._calls[call_id] = position
        metadata = message.get("metadata")
        if isinstance(metadata, dict) and _PIN in metadata:
            self.pinned.add(self.leaders[position])

    def unit(self, leader: int) -> list[int]:
        """Return the positions of a unit's messages."""
        return self.members.get(leader) or [leader]

    def unit_end(self, position: int) -> int:
        """Return the first position after `position` at which no run of tool results is cut in two."""
        end = position + 1
        while end < len(self.kinds) and self.kinds[end] == TOOL:
            end += 1
        return end

    def first_beyond(self, tokens: int) -> int:
        """Return the position of the first message with which the conversation exceeds `tokens`."""
        return bisect_right(self.ends, tokens)

    def first_within_last(self, tokens: int, end: int) -> int:
        """Return the earliest position from which on the messages before `end` take at most `tokens`."""
        return bisect_left(self.ends, self.total_until(end) - tokens, hi=end) + 1 if tokens < self.ends[end - 1] else 0

    def doomed_until(self, goal: int, end: int) -> int:
        """Return a position such that what is from there to `end` exceeds `goal`, however much is truncated."""
        return bisect_left(self._floors, self._floors[end - 1] - goal, hi=end)

    def _join(self, position: int, message: Message) -> None:
        leader = self._calls.get(_text(message.get("tool_call_id")))
        if leader is None:
            return
        if self.last_members[leader] != position - 1:
            self.epoch += 1
        self.leaders[position] = leader
        self.last_members[leader] = position
        self.members.setdefault(leader, [leader]).append(position)


def _is_real(message: Message) -> bool:
    """Tell what a person said from what hooks and orchestrators put in the user's mouth."""
    metadata = message.get("metadata")
    if isinstance(metadata, dict) and metadata.get("source") == "hook":
        return False
    content = message["content"]
    return not (isinstance(content, str) and content.lstrip().startswith(_REMINDER))


def _text(value: Any) -> str:
    return "" if value is None else str(value)
