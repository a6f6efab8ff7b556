"""What the model will say: canned replies in a circle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

DEFAULT_RESPONSES = (
    "I understand. This is a scripted answer: no model was asked.",
    "Done. This answer comes from the mock provider.",
    "That is all I have been scripted to say.",
)


@dataclass(frozen=True)
class Reply:
    """One answer of the model."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()
    usage: dict[str, int] = field(default_factory=dict)
    delay_ms: float = 0.0
    error: dict[str, Any] | None = None


class CannedReplies:
    """Give the configured replies one after the other, from the start again after the last."""

    def __init__(self, responses: list[str | dict[str, Any]] | None = None) -> None:
        """Take strings, or mappings with `text` and `thinking`; raise ValueError for anything else."""
        self._replies = [_canned(index, given) for index, given in enumerate(responses or DEFAULT_RESPONSES)]
        self._calls = 0

    def next(self, messages: list[Any], tools: list[str]) -> Reply:
        """Return the next reply; a user who says "read" gets a tool call to read."""
        last = messages[-1] if messages else None
        # The user alone: results and reminders mention reading too, and would make the loop go round for ever.
        if last is not None and last.role == "user" and "read" in text_of(last).lower():
            return Reply(tool_calls=({"id": "mock_tool_1", "name": "read", "arguments": {"path": "test.txt"}},))
        reply = self._replies[self._calls % len(self._replies)]
        self._calls += 1
        return reply


def _canned(index: int, given: str | dict[str, Any]) -> Reply:
    if isinstance(given, str):
        return Reply(text=given)
    if isinstance(given, dict) and set(given) <= {"text", "thinking"}:
        return Reply(text=str(given.get("text", "")), thinking=str(given.get("thinking", "")))
    raise ValueError(f"responses[{index}] must be a string or a mapping with 'text' and 'thinking', got {given!r}")


def text_of(message: Any) -> str:
    """Return the text of a message, whatever shape its content has."""
    content = message.content
    if isinstance(content, str):
        return content
    parts = (getattr(block, "text", None) or getattr(block, "output", None) for block in content)
    return "\n".join(str(part) for part in parts if part)
