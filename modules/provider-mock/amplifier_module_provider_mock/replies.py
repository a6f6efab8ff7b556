"""What the model will say: canned replies, one after the other and from the start again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

DEFAULT_RESPONSES = (
    "I understand. This is a scripted answer: no model was asked.",
    "Done. This answer comes from the mock provider.",
    "That is all I have been scripted to say.",
)

#: How hooks mark what they add to a request for one call.
_REMINDER = "<system-reminder"


@dataclass(frozen=True)
class Reply:
    """One answer of the model, or its failure; with both, the failure comes in the middle of the answer."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()
    usage: dict[str, Any] = field(default_factory=dict)
    delay_ms: float = 0.0
    error: dict[str, Any] | None = None


class Replies(Protocol):
    """Whatever knows the next answer."""

    def next(self, messages: Sequence[Any], tools: Sequence[str]) -> Reply:
        """Return the answer to a request with these messages and tools; raises LLMError when there is none."""


class CannedReplies:
    """Give the configured replies in a circle."""

    def __init__(self, responses: Any = None) -> None:
        """Take strings, or mappings with `text` and `thinking`; raise ValueError for anything else."""
        given = [responses] if isinstance(responses, str) else responses or DEFAULT_RESPONSES
        if not isinstance(given, (list, tuple)):
            raise ValueError(f"responses must be a list, got {type(given).__name__}")
        self._replies = [_canned(index, reply) for index, reply in enumerate(given)]
        self._calls = 0

    def next(self, messages: Sequence[Any], tools: Sequence[str]) -> Reply:
        """Return the next reply; a user who says "read" gets a call to the tool `read` instead."""
        last = last_spoken(messages)
        # The user alone: results mention reading too, and the loop would go round for ever.
        if last is not None and last.role == "user" and "read" in text_of(last).lower():
            return Reply(tool_calls=({"id": "mock_tool_1", "name": "read", "arguments": {"path": "test.txt"}},))
        reply = self._replies[self._calls % len(self._replies)]
        self._calls += 1
        return reply


def _canned(index: int, given: Any) -> Reply:
    if isinstance(given, str):
        return Reply(text=given)
    if isinstance(given, dict) and set(given) <= {"text", "thinking"}:
        return Reply(text=str(given.get("text") or ""), thinking=str(given.get("thinking") or ""))
    raise ValueError(f"responses[{index}] must be a string or a mapping with 'text' and 'thinking', got {given!r}")


def last_spoken(messages: Sequence[Any]) -> Any:
    """Return the last message that is no reminder of a hook, or None."""
    return next((message for message in reversed(messages) if not _is_reminder(message)), None)


def text_of(message: Any) -> str:
    """Return the text of a message, whatever shape its content has."""
    content = message.content
    return content if isinstance(content, str) else "\n".join(filter(None, map(_block_text, content)))


def _is_reminder(message: Any) -> bool:
    return message.role != "tool" and text_of(message).lstrip().startswith(_REMINDER)


def _block_text(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type == "tool_result":
        output = block.output
        return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)
    return ""
