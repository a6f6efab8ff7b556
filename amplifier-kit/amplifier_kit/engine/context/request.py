"""A built request: its messages, and which part of the ledger it shows."""

from __future__ import annotations

from typing import Any, NamedTuple

from amplifier_kit.engine.context.compaction import Compacted
from amplifier_kit.engine.context.config import ContextConfig
from amplifier_kit.engine.context.conversation import Conversation
from amplifier_kit.engine.context.instructions import SystemPart
from amplifier_kit.engine.context.messages import Message
from amplifier_kit.engine.context.view import Room

__all__ = ["Request", "Shown", "compaction_facts", "required_tokens"]


class Shown(NamedTuple):
    """The part of a conversation that a request shows: a compacted beginning and the rest."""

    talk: Conversation
    made: Compacted | None
    rest: list[Message]
    #: How many messages the conversation had, and how many tokens are shown of it.
    length: int
    tokens: int

    @classmethod
    def of(cls, talk: Conversation, made: Compacted | None) -> Shown:
        """Take the conversation as it is now."""
        end, before = (made.end, made.tokens) if made is not None else (0, 0)
        tokens = before + talk.total - talk.total_until(end)
        return cls(talk, made, talk.messages[end:], len(talk), tokens)


class Request(NamedTuple):
    """The messages of a request and their size."""

    messages: list[Message]
    tokens: int
    room: Room
    made: Compacted | None
    conversation: int
    system: int

    def retention(self) -> dict[str, Any]:
        """Return how much of the ledger the request shows."""
        made = self.made
        return {
            "ledger_messages": self.conversation,
            "request_messages": len(self.messages),
            "system_messages": self.system,
            "messages_removed": made.removed if made is not None else 0,
            "messages_truncated": made.truncated if made is not None else 0,
            "user_messages_stubbed": made.stubbed if made is not None else 0,
            "strategy_level": made.level if made is not None else 0,
            "request_tokens": self.tokens,
            "budget": self.room.budget,
        }


def compaction_facts(shown: Shown, room: Room, system: SystemPart, settings: ContextConfig) -> dict[str, Any]:
    """Return the payload of `context:compaction`: the whole ledger before, the view without its notice after."""
    talk, made = shown.talk, shown.made
    assert made is not None, "the view is not compacted"
    before = shown.length + len(system.messages)
    return {
        "before_tokens": talk.total_until(shown.length) + room.system,
        "after_tokens": shown.tokens + room.system,
        "before_messages": before,
        "after_messages": before - made.removed,
        "messages_removed": made.removed,
        "messages_truncated": made.truncated,
        "user_messages_stubbed": made.stubbed,
        "system_messages_preserved": len(system.messages) + len(talk.systems),
        "strategy_level": made.level,
        "budget": room.budget,
        "target_tokens": room.target + room.system,
        "protected_recent": settings.protected_recent,
        "protected_tool_results": settings.protected_tool_results,
    }


def required_tokens(talk: Conversation, room: Room) -> str:
    """Return in words how many tokens the mandatory parts of every request take."""
    said = [f"the instructions take about {room.system}"]
    if talk.users:
        said.append(f"the last user message {talk.tokens[talk.users[-1]]}")
    if len(talk) and (not talk.users or talk.users[-1] != len(talk) - 1):
        latest = talk.unit(talk.leaders[-1])
        said.append(f"the latest exchange {sum(talk.tokens[position] for position in latest)} before clipping")
    return ", ".join(said)
