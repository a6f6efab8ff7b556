"""Count the turns of a conversation, cut it after one of them, and complete calls without a result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from amplifier_foundation.sessions import turns
from amplifier_foundation.sessions.turns import Orphans, is_real_user_message, message_text, settle_orphans
from amplifier_kit.engine.pairing import (
    MISSING_RESULT_TEXT,
    is_tool_result,
    tool_call_ids,
    tool_call_names,
    tool_result,
)

__all__ = [
    "add_synthetic_tool_results",
    "count_turns",
    "find_orphaned_tool_calls",
    "get_turn_boundaries",
    "get_turn_summary",
    "is_real_user_message",
    "slice_to_turn",
]

Message = dict[str, Any]


def is_user_message(message: Mapping[str, Any]) -> bool:
    """Return whether a published turn starts here: at each message in the user's role, reminders included."""
    return message.get("role") == "user"


def get_turn_boundaries(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the position of the first message of each turn."""
    return turns.turn_boundaries(messages, is_user_message)


def count_turns(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of turns."""
    return turns.count_turns(messages, is_user_message)


def end_of_turn(messages: Sequence[Mapping[str, Any]], turn: int) -> int:
    """Return the position after the last message of a turn; raises TurnRangeError, a ValueError."""
    return turns.end_of_turn(messages, turn, first=1, is_start=is_user_message)


def slice_to_turn(messages: Sequence[Message], turn: int, handle_orphaned_tools: Orphans = "complete") -> list[Message]:
    """Return the conversation up to the end of a turn, with its calls paired.

    Calls without a result get one that says so ("complete"), are left out ("remove"), or are an error ("error"). Raises
    TurnRangeError for a missing turn and OrphanedCallsError; both are ValueErrors.
    """
    return settle_orphans(messages[: end_of_turn(messages, turn)], handle_orphaned_tools)


def get_turn_summary(messages: Sequence[Mapping[str, Any]], turn: int, *, max_length: int = 100) -> dict[str, Any]:
    """Return `turn`, `user_content`, `assistant_content` (the last answer), `tool_count` and `message_count`.

    Texts have at most `max_length` characters. Raises TurnRangeError, a ValueError, for a missing turn.
    """
    end = end_of_turn(messages, turn)
    part = messages[get_turn_boundaries(messages)[turn - 1] : end]
    answers = [text for message in part if message.get("role") == "assistant" and (text := message_text(message))]
    return {
        "turn": turn,
        "user_content": _shortened(message_text(part[0]), max_length),
        "assistant_content": _shortened(answers[-1] if answers else "", max_length),
        "tool_count": sum(len(tool_call_ids(message)) for message in part),
        "message_count": len(part),
    }


def find_orphaned_tool_calls(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ids of calls, in `tool_calls` or in content blocks, that no tool message answers."""
    answered = {str(message.get("tool_call_id")) for message in messages if is_tool_result(message)}
    called = dict.fromkeys(call for message in messages for call in tool_call_ids(message))
    return [call for call in called if call not in answered]


def add_synthetic_tool_results(messages: Sequence[Message], orphaned_ids: Iterable[str] | None = None) -> list[Message]:
    """Return the conversation with an error result for each of these calls, directly after the message that makes it.

    By default these are all that `find_orphaned_tool_calls` finds. The other messages are the same objects.
    """
    wanted = set(find_orphaned_tool_calls(messages) if orphaned_ids is None else orphaned_ids)
    completed: list[Message] = []
    for message in messages:
        completed.append(message)
        for call, tool in tool_call_names(message).items():
            if call in wanted:
                wanted.remove(call)  # an id that is used twice is answered once
                completed.append(tool_result(call, tool, MISSING_RESULT_TEXT, synthetic=True))
    return completed


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: max(longest - 1, 0)]}…"
