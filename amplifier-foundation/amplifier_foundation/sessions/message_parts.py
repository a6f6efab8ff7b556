"""Split a stored message into its thoughts, its content and its tool calls, each of them once.

Content blocks hold thoughts and calls that the message may have in `thinking_text` and `tool_calls` as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_core.named_tuple import NamedTuple

_THOUGHTS: Final = ("thinking", "redacted_thinking")
_CALLS: Final = ("tool_call", "tool_use")


class MessageParts(NamedTuple):
    """The parts of one message."""

    thoughts: list[str]
    #: The content without thoughts and calls.
    content: Any
    #: The tool calls: name and arguments.
    calls: list[tuple[str, Any]]


def message_parts(message: Mapping[str, Any]) -> MessageParts:
    """Return the parts of a message."""
    content, listed = message.get("content"), message.get("tool_calls")
    blocks = content if isinstance(content, list) else []
    thoughts = [str(block["thinking"]) for block in blocks if _is(block, "thinking") and block.get("thinking")]
    known = message.get("thinking_text")
    if known and str(known).strip() != "\n".join(thoughts).strip() and str(known) not in thoughts:
        thoughts.insert(0, str(known))
    calls = [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
    ids = {call.get("id") for call in calls}
    calls += [block for block in blocks if _is(block, *_CALLS) and (block.get("id") is None or block["id"] not in ids)]
    rest = [block for block in blocks if not _is(block, *_THOUGHTS, *_CALLS)]
    return MessageParts(
        thoughts,
        rest if isinstance(content, list) else content,
        [(str(call.get("tool") or call.get("name")), call.get("arguments", call.get("input"))) for call in calls],
    )


def _is(block: object, *kinds: str) -> bool:
    return isinstance(block, dict) and block.get("type") in kinds
