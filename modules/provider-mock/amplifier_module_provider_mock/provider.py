"""The provider itself: from a reply to events, streamed blocks and a response."""

from __future__ import annotations

import asyncio
import re
import time
from decimal import Decimal
from typing import Any

from amplifier_core import (
    ChatRequest,
    ChatResponse,
    ModelInfo,
    ProviderInfo,
    TextBlock,
    TextContent,
    ThinkingBlock,
    ThinkingContent,
    ToolCall,
    ToolCallBlock,
    ToolCallContent,
    Usage,
    llm_errors,
)
from amplifier_core.events import LLM_REQUEST, LLM_RESPONSE
from amplifier_kit.stream import StreamEmitter

from amplifier_module_provider_mock.replies import Reply, text_of

MODEL = "mock-model"
_WORDS = re.compile(r"\S+\s*|\s+")


class MockResponse(ChatResponse):
    """A response with the extras that published providers give: streamed content blocks and plain text."""

    content_blocks: list[Any] | None = None
    text: str | None = None


class MockProvider:
    """Answer from a script, through the same events as any provider."""

    name = "mock"

    def __init__(self, config: dict[str, Any], replies: Any, coordinator: Any = None) -> None:
        self.config = config
        self.priority = config.get("priority", 100)
        self.model = str(config.get("default_model") or MODEL)
        self._replies = replies
        self._coordinator = coordinator
        self._streams = bool(config.get("use_streaming", True))

    def get_info(self) -> ProviderInfo:
        """Describe the provider."""
        return ProviderInfo(
            id="mock",
            display_name="Mock (scripted)",
            capabilities=["streaming", "tools", "thinking", "local"],
            defaults={"model": self.model, "context_window": 200_000, "max_output_tokens": 8_192},
        )

    async def list_models(self) -> list[ModelInfo]:
        """Return the one model there is."""
        return [self.get_model_info()]

    def get_model_info(self) -> ModelInfo:
        """Describe the model in use."""
        return ModelInfo(
            id=self.model, display_name="Mock", context_window=200_000, max_output_tokens=8_192, capabilities=["tools"]
        )

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the tool calls of a response."""
        return list(response.tool_calls or [])

    async def close(self) -> None:
        """Release nothing: there is no client."""

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the next reply of the script; raise the error it scripts instead, or says about the request."""
        hooks = self._coordinator.hooks if self._coordinator is not None else None
        streams = self._streams and (request.metadata or {}).get("stream") is not False
        emitter = StreamEmitter(hooks, enabled=streams)
        started = time.monotonic()
        tools = [tool.name for tool in request.tools or []]
        facts = {"provider": self.name, "model": request.model or self.model}
        request_facts = {"message_count": len(request.messages), "tools": tools, "stream": streams}
        if self.config.get("raw"):
            request_facts["raw"] = request.model_dump(mode="json")
        await self._emit(hooks, LLM_REQUEST, {**facts, **request_facts, "request_id": emitter.request_id})
        try:
            reply = self._replies.next(request.messages, tools)
            if reply.delay_ms:
                await asyncio.sleep(reply.delay_ms / 1000)
            if reply.error is not None:
                raise _scripted_error(reply.error)
            await _stream(emitter, reply)
        except BaseException as error:
            await emitter.aborted(error)
            failure = {"status": "error", "error": {"type": type(error).__name__, "message": str(error)}}
            await self._emit(hooks, LLM_RESPONSE, {**facts, **failure, "duration_ms": _since(started)})
            raise
        response = _response(reply, request)
        usage = response.usage.model_dump(exclude_none=True) if response.usage is not None else {}
        answered = {"status": "ok", "duration_ms": _since(started), "usage": usage}
        if self.config.get("raw"):
            answered["raw"] = response.model_dump(mode="json", exclude={"content_blocks"})
        await self._emit(hooks, LLM_RESPONSE, {**facts, **answered, "request_id": emitter.request_id})
        return response

    async def _emit(self, hooks: Any, event: str, data: dict[str, Any]) -> None:
        if hooks is not None:
            await hooks.emit(event, data)


async def _stream(emitter: StreamEmitter, reply: Reply) -> None:
    index = 0
    for kind, text in (("thinking", reply.thinking), ("text", reply.text)):
        if text:
            await emitter.block_start(index, kind)  # type: ignore[arg-type]  # both are block types
            for word in _WORDS.findall(text):
                await emitter.block_delta(index, word)
            await emitter.block_end(index)
            index += 1
    for call in reply.tool_calls:
        await emitter.block_start(index, "tool_use", call["name"])
        await emitter.block_end(index)
        index += 1


def _response(reply: Reply, request: ChatRequest) -> MockResponse:
    content: list[Any] = []
    blocks: list[Any] = []
    if reply.thinking:
        content.append(ThinkingBlock(thinking=reply.thinking))
        blocks.append(ThinkingContent(text=reply.thinking))
    if reply.text:
        content.append(TextBlock(text=reply.text))
        blocks.append(TextContent(text=reply.text))
    calls = [ToolCall(**call) for call in reply.tool_calls]
    for call in calls:
        content.append(ToolCallBlock(id=call.id, name=call.name, input=call.arguments))
        blocks.append(ToolCallContent(id=call.id, name=call.name, arguments=call.arguments))
    return MockResponse(
        content=content,
        tool_calls=calls or None,
        usage=_usage(reply, request),
        finish_reason="tool_use" if calls else "stop",
        content_blocks=blocks,
        text=reply.text or None,
    )


def _usage(reply: Reply, request: ChatRequest) -> Usage:
    """Count as scripted; what is not scripted is estimated at four characters a token. A script costs nothing."""
    asked = reply.usage.get("input_tokens", sum(len(text_of(message)) for message in request.messages) // 4)
    said = reply.usage.get("output_tokens", (len(reply.text) + len(reply.thinking)) // 4)
    rest = {key: count for key, count in reply.usage.items() if key not in ("input_tokens", "output_tokens")}
    total = rest.pop("total_tokens", asked + said)
    return Usage(input_tokens=asked, output_tokens=said, total_tokens=total, cost_usd=Decimal(0), **rest)


def _scripted_error(error: dict[str, Any]) -> llm_errors.LLMError:
    kind: type[llm_errors.LLMError] = getattr(llm_errors, str(error.get("type", "LLMError")))
    given = {key: error[key] for key in ("retryable", "status_code", "retry_after") if key in error}
    return kind(str(error.get("message", "scripted error")), provider="mock", **given)


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
