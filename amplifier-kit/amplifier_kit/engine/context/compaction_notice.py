"""The notice that tells the model which parts of the conversation are shortened."""

from __future__ import annotations

from typing import Final

from amplifier_kit.engine.context.compaction import Compacted
from amplifier_kit.engine.context.config import ContextConfig
from amplifier_kit.engine.context.messages import Message
from amplifier_kit.engine.context.view import Room
from amplifier_kit.engine.pairing import tool_call_ids

__all__ = ["notice_for", "with_notice"]

SOURCE: Final = "context-compaction"


def notice_for(made: Compacted, room: Room, settings: ContextConfig) -> Message | None:
    """Return the message that explains a compacted view, or None when the settings want none.

    It says what was done to the compacted beginning only, so that it stays the same until the next compaction.
    """
    if not settings.compaction_notice_enabled or made.level < settings.compaction_notice_min_level:
        return None
    lines = [f"Earlier parts of this conversation are shortened in this request (level {made.level})."]
    if settings.compaction_notice_verbosity != "minimal":
        lines.append(
            f"Left out: {made.removed} messages. Truncated: {made.truncated} tool results. "
            f"Shortened: {made.stubbed} user messages."
        )
        lines.append("Nothing is lost: look at files again, or ask, when something you need is not here.")
    if settings.compaction_notice_verbosity == "verbose":
        lines.append(
            f"The first {made.end} messages take about {made.tokens} tokens now; the request may take {room.budget}, "
            f"of which the instructions take {room.system}."
        )
    text = "\n".join(lines)
    return {
        "role": "system",
        "content": f'<system-reminder source="{SOURCE}">\n{text}\n</system-reminder>',
        "metadata": {"source": SOURCE, "ephemeral": True},
    }


def with_notice(messages: list[Message], notice: Message) -> list[Message]:
    """Return the messages with the notice at index 1, or in front when it would part a call from its results."""
    index = 0 if not messages or tool_call_ids(messages[0]) else 1
    return [*messages[:index], notice, *messages[index:]]
