"""Build the response that a reply amounts to."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

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
from amplifier_module_provider_mock.replies import Reply, text_of

_CHARACTERS_PER_TOKEN = 4


class MockResponse(ChatResponse):
    """A response with the extras that published providers give: blocks as they were streamed, and plain text."""

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
    # Every response its own arguments: tools and hooks may change what they get.
    calls = [ToolCall(**{**call, "arguments": _copied(call["arguments"])}) for call in reply.tool_calls]
    for call in calls:
        content.append(ToolCallBlock(id=call.id, name=call.name, input=_copied(call.arguments)))
        blocks.append(ToolCallContent(id=call.id, name=call.name, arguments=_copied(call.arguments)))
    return MockResponse(
        content=content,
        tool_calls=calls or None,
        usage=_usage(reply, request),
        finish_reason="tool_use" if calls else "stop",
        content_blocks=blocks,
        text=reply.text or None,
    )


def _usage(reply: Reply, request: ChatRequest) -> Usage:
    """Count as scripted; what is not scripted is estimated. A script costs nothing, unless it says so."""
    counts = dict(reply.usage)
    asked = counts.pop("input_tokens", None)
    if asked is None:
        asked = sum(len(text_of(message)) for message in request.messages) // _CHARACTERS_PER_TOKEN
    said = counts.pop("output_tokens", (len(reply.text) + len(reply.thinking)) // _CHARACTERS_PER_TOKEN)
    total = counts.pop("total_tokens", asked + said)
    cost = counts.pop("cost_usd", Decimal(0))
    return Usage(input_tokens=asked, output_tokens=said, total_tokens=total, cost_usd=cost, **counts)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
