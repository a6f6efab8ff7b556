"""Count the turns of a conversation and cut it after one of them.

A turn is a prompt of the user and everything up to the next one. Messages of hooks, goals and users who steer a running
turn belong to that turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

from amplifier_foundation.errors import FoundationError
from amplifier_kit.engine.pairing import Violation, check_pairing, repair_pairing, tool_call_ids
from amplifier_kit.reminders import is_reminder

__all__ = [
    "OrphanedCallsError",
    "Orphans",
    "TurnRangeError",
    "count_turns",
    "is_real_user_message",
    "settle_orphans",
    "slice_to_turn",
    "starts_turn",
    "turn_boundaries",
]

Message = dict[str, Any]
#: Says whether a turn starts with a message.
IsStart = Callable[[Mapping[str, Any]], bool]
#: What happens to calls without a result: complete adds one that says so, remove drops the call, error raises.
Orphans = Literal["complete", "remove", "error"]

_NOT_A_PROMPT: Final = frozenset({"hook", "goal"})
_CALL_BLOCKS: Final = frozenset({"tool_call", "tool_use"})


class TurnRangeError(FoundationError, ValueError):
    """The conversation does not have this turn."""

    code = "turn_range"


class OrphanedCallsError(FoundationError, ValueError):
    """Calls have no result; `tool_call_ids` names them."""

    code = "orphaned_calls"

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.tool_call_ids = [violation.tool_call_id for violation in violations]
        named = ", ".join(f"{violation.tool_call_id!r} ({violation.tool_name})" for violation in violations)
        super().__init__(f"tool calls without a result: {named}: complete or remove them")


def is_real_user_message(message: Mapping[str, Any]) -> bool:
    """Return whether a person wrote this: not a tool, a reminder, a hook or a goal in the user role."""
    if message.get("role") != "user" or message.get("tool_call_id"):
        return False
    return _origin(message) not in _NOT_A_PROMPT and not is_reminder(message_text(message))


def starts_turn(message: Mapping[str, Any]) -> bool:
    """Return whether a turn starts here; steering belongs to the running turn."""
    return is_real_user_message(message) and _origin(message) != "steering"


def message_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message, without other blocks."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(str(block.get("text") or "") for block in content if isinstance(block, Mapping))


def turn_boundaries(messages: Sequence[Mapping[str, Any]], is_start: IsStart = starts_turn) -> list[int]:
    """Return the position of the first message of each turn."""
    return [position for position, message in enumerate(messages) if is_start(message)]


def count_turns(messages: Sequence[Mapping[str, Any]], is_start: IsStart = starts_turn) -> int:
    """Return the number of turns."""
    return sum(map(is_start, messages))


def slice_to_turn(messages: Sequence[Message], turn: int, orphans: Orphans = "complete") -> list[Message]:
    """Return the conversation up to the end of a turn, counted from 1, with its calls paired; 0 is before the first.

    Raises TurnRangeError for a missing turn, OrphanedCallsError if `orphans` is "error" and there are any.
    """
    return settle_orphans(messages[: end_of_turn(messages, turn)], orphans)


def end_of_turn(
    messages: Sequence[Mapping[str, Any]], turn: int, *, first: int = 0, is_start: IsStart = starts_turn
) -> int:
    """Return the position after the last message of a turn; raises TurnRangeError, also below `first`."""
    starts = turn_boundaries(messages, is_start)
    if not first <= turn <= len(starts):
        existing = f"turns 1 to {len(starts)}" if starts else "no turns"
        raise TurnRangeError(f"turn {turn} does not exist: the conversation has {existing}")
    return starts[turn] if turn < len(starts) else len(messages)


def settle_orphans(messages: Sequence[Message], orphans: Orphans) -> list[Message]:
    """Return a conversation in which every call has its result.

    Messages that need no change are the same objects. Raises OrphanedCallsError as `slice_to_turn` does, and ValueError
    for an unknown value of `orphans`.
    """
    if orphans not in get_args(Orphans):
        raise ValueError(f"orphans must be one of {', '.join(get_args(Orphans))}, got {orphans!r}")
    # Misplaced results are moved first: their calls are not orphans.
    sound = repair_pairing(messages)
    lost = {repair.tool_call_id for repair in sound.repairs if repair.kind == "missing_result"}
    if not lost or orphans == "complete":
        return sound.messages
    if orphans == "error":
        missing = [violation for violation in check_pairing(messages) if violation.kind == "missing_result"]
        raise OrphanedCallsError([violation for violation in missing if violation.tool_call_id in lost] or missing)
    return _without(sound.messages, lost)


def _without(messages: Sequence[Message], lost: set[str]) -> list[Message]:
    """Remove calls, with the results and closing messages that a repair added for them."""
    kept: list[Message] = []
    removed = False
    for message in messages:
        if message.get("role") == "tool" and message.get("tool_call_id") in lost:
            continue
        if removed and message.get("role") == "assistant" and _is_synthetic(message):
            continue
        removed = False
        if lost.intersection(tool_call_ids(message)):
            message, removed = _without_calls(message, lost), True
            if not message.get("content") and not message.get("tool_calls"):
                continue
        kept.append(message)
    return kept


def _without_calls(message: Message, lost: set[str]) -> Message:
    left = dict(message)
    if isinstance(calls := message.get("tool_calls"), list):
        left["tool_calls"] = [entry for entry in calls if not (isinstance(entry, Mapping) and entry.get("id") in lost)]
        if not left["tool_calls"]:
            del left["tool_calls"]
    if isinstance(content := message.get("content"), list):
        left["content"] = [block for block in content if not (_is_call(block) and block.get("id") in lost)]
    return left


def _is_call(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") in _CALL_BLOCKS


def _is_synthetic(message: Mapping[str, Any]) -> bool:
    metadata = message.get("metadata")
    return isinstance(metadata, Mapping) and metadata.get("synthetic") is True


def _origin(message: Mapping[str, Any]) -> Any:
    metadata = message.get("metadata")
    return metadata.get("source") if isinstance(metadata, Mapping) else None
