"""Replies of the scripted model: canned ones in a circle, and the response for each reply."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import field
from decimal import Decimal
from typing import Any, Protocol

from amplifier_core import (
    ChatRequest,
    ChatResponse,
    TextBlock,
    TextContent,
    ThinkingBlock,
    ThinkingContent,
    ToolCall,
    ToolCallBlock,
    ToolCallContent,
    Usage,
)
from amplifier_kit.reminders import is_reminder
from amplifier_kit.struct import FrozenStruct

DEFAULT_RESPONSES = (
    "I understand. This is a scripted answer: no model was asked.",
    "Done. This answer comes from the mock provider.",
    "That is all I have been scripted to say.",
)

#: How hooks mark the text that they add to a single request.


class Reply(FrozenStruct):
    """One answer of the model, or its failure; with both, the failure comes in the middle of the answer."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()
    usage: dict[str, Any] = field(default_factory=dict)
    delay_ms: float = 0.0
    error: dict[str, Any] | None = None


class Replies(Protocol):
    """A source of replies."""

    def next(self, messages: Sequence[Any], tools: Sequence[str]) -> Reply:
        """Return the reply to a request with these messages and tools; raises LLMError without one."""


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
        last = last_message(messages)
        # Only for the user: results mention reading too, and the loop would never end.
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


def last_message(messages: Sequence[Any]) -> Any:
    """Return the last message that is not a reminder of a hook, or None."""
    return next((message for message in reversed(messages) if not _is_reminder(message)), None)


def text_of(message: Any) -> str:
    """Return the text of a message."""
    content = message.content
    return content if isinstance(content, str) else "\n".join(filter(None, map(_block_text, content)))


def _is_reminder(message: Any) -> bool:
    return message.role != "tool" and is_reminder(text_of(message))


def _block_text(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type == "tool_result":
        output = block.output
        return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)
    return ""


# -- the response for a reply --


_CHARACTERS_PER_TOKEN = 4


class MockResponse(ChatResponse):
    """A response with the extras of published providers: blocks as they were streamed, and plain text."""

    content_blocks: list[Any] | None = None
    text: str | None = None


def build_response(reply: Reply, request: ChatRequest) -> MockResponse:
    """Return a reply as the answer to a request."""
    content: list[Any] = []
    blocks: list[Any] = []
    if reply.thinking:
        content.append(ThinkingBlock(thinking=reply.thinking))
        blocks.append(ThinkingContent(text=reply.thinking))
    if reply.text:
        content.append(TextBlock(text=reply.text))
        blocks.append(TextContent(text=reply.text))
    # Copies, since tools and hooks may change the arguments they get.
    calls = [ToolCall(**{**call, "arguments": deepcopy(call["arguments"])}) for call in reply.tool_calls]
    for call in calls:
        content.append(ToolCallBlock(id=call.id, name=call.name, input=deepcopy(call.arguments)))
        blocks.append(ToolCallContent(id=call.id, name=call.name, arguments=deepcopy(call.arguments)))
    return MockResponse(
        content=content,
        tool_calls=calls or None,
        usage=_usage(reply, request),
        finish_reason="tool_use" if calls else "stop",
        content_blocks=blocks,
        text=reply.text or None,
    )


def _usage(reply: Reply, request: ChatRequest) -> Usage:
    """Return the scripted counts, with estimates for missing ones; the cost is zero unless it is scripted."""
    counts = dict(reply.usage)
    asked = counts.pop("input_tokens", None)
    if asked is None:
        asked = sum(len(text_of(message)) for message in request.messages) // _CHARACTERS_PER_TOKEN
    said = counts.pop("output_tokens", (len(reply.text) + len(reply.thinking)) // _CHARACTERS_PER_TOKEN)
    total = counts.pop("total_tokens", asked + said)
    cost = counts.pop("cost_usd", Decimal(0))
    return Usage(input_tokens=asked, output_tokens=said, total_tokens=total, cost_usd=cost, **counts)
