"""The provider: turns replies into events, streamed blocks and responses."""

from __future__ import annotations

import asyncio
import re
import time
from decimal import Decimal
from typing import Any

from amplifier_core import ChatRequest, ModelInfo, ProviderInfo, capabilities, llm_errors
from amplifier_core.events import LLM_REQUEST, LLM_RESPONSE
from amplifier_core.message_models import ChatResponse, ToolCall
from amplifier_kit.config import read_config
from amplifier_kit.engine.stream_events import StreamEmitter
from amplifier_kit.engine.usage import require_allowance
from amplifier_module_provider_mock.config import MockConfig
from amplifier_module_provider_mock.replies import MockResponse, Replies, Reply, build_response

_ABILITIES = [capabilities.STREAMING, capabilities.TOOLS, capabilities.THINKING, capabilities.LOCAL]
_WORDS = re.compile(r"\S+\s*|\s+")


class MockProvider:
    """Answer from a script, through the same events as any provider."""

    name = "mock"

    def __init__(
        self, config: dict[str, Any], replies: Replies, coordinator: Any = None, *, settings: MockConfig | None = None
    ) -> None:
        """Read the config, unless its `settings` are given; raises ConfigError, which names each wrong value."""
        self.config = config
        self.settings = settings or read_config(MockConfig, config, module="provider-mock")
        self.priority = self.settings.chosen_priority
        self.model = self.settings.default_model
        self._replies = replies
        self._coordinator = coordinator
        self._streams = self.settings.use_streaming
        self._raw = self.settings.raw or self.settings.raw_debug
        self._calls = 0
        self._cost = Decimal(0)

    def get_info(self) -> ProviderInfo:
        """Describe the provider."""
        model = self.get_model_info()
        limits = {"context_window": model.context_window, "max_output_tokens": model.max_output_tokens}
        return ProviderInfo(
            id="mock",
            display_name="Mock (scripted)",
            capabilities=list(_ABILITIES),
            defaults={"model": self.model, **limits},
        )

    async def list_models(self) -> list[ModelInfo]:
        """Return the only model."""
        return [self.get_model_info()]

    def get_model_info(self) -> ModelInfo:
        """Describe the model in use."""
        return ModelInfo(
            id=self.model,
            display_name="Mock",
            context_window=self.settings.context_window,
            max_output_tokens=self.settings.max_output_tokens,
            capabilities=list(_ABILITIES),
        )

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the tool calls of a response."""
        return list(response.tool_calls or [])

    async def close(self) -> None:
        """Do nothing: the provider has no client."""

    def cost(self) -> dict[str, str] | None:
        """Return the cost of all calls, which is zero unless it is scripted; None before the first call."""
        return {"cost_usd": str(self._cost)} if self._calls else None

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the next reply of the script.

        Raises a scripted error, and InvalidRequestError when the script has no reply to this request. In any case,
        there is one `llm:request` and one `llm:response`.
        """
        self._calls += 1
        streams = self._streams and (request.metadata or {}).get("stream") is not False
        emitter = StreamEmitter(self._hooks, enabled=streams)
        call = {"provider": self.name, "model": request.model or self.model, "request_id": emitter.request_id}
        asked = {"message_count": len(request.messages), "tool_count": len(request.tools or []), "stream": streams}
        await self._emit(LLM_REQUEST, {**call, **asked, **self._raw_of(request)})
        started = time.monotonic()
        try:
            response = await self._answer(request, emitter)
        except BaseException as error:
            await emitter.abort(error)
            failure = {"type": type(error).__name__, "message": str(error)}
            await self._emit(LLM_RESPONSE, {**call, "status": "error", **_since(started), "error": failure})
            raise
        assert response.usage is not None
        self._cost += response.usage.cost_usd or 0
        usage = response.usage.model_dump(exclude_none=True)
        raw = self._raw_of(response)
        await self._emit(LLM_RESPONSE, {**call, "status": "ok", **_since(started), "usage": usage, **raw})
        return response

    async def _answer(self, request: ChatRequest, emitter: StreamEmitter) -> MockResponse:
        require_allowance(self._coordinator, self.name, request.model or self.model)
        reply = self._replies.next(request.messages, [tool.name for tool in request.tools or []])
        if reply.delay_ms:
            await asyncio.sleep(reply.delay_ms / 1000)
        await _stream(emitter, reply)
        if reply.error is not None:
            raise _scripted(reply.error)
        return build_response(reply, request)

    @property
    def _hooks(self) -> Any:
        return self._coordinator.hooks if self._coordinator is not None else None

    def _raw_of(self, payload: ChatRequest | ChatResponse) -> dict[str, Any]:
        if not self._raw:
            return {}
        from amplifier_core.utils import redact_secrets

        return {"raw": redact_secrets(payload.model_dump(mode="json", exclude={"content_blocks"}, exclude_none=True))}

    async def _emit(self, event: str, data: dict[str, Any]) -> None:
        if self._hooks is not None:
            await self._hooks.emit(event, data)


async def _stream(emitter: StreamEmitter, reply: Reply) -> None:
    """Emit the blocks of a reply, word by word; a failing reply breaks off in its last block."""
    blocks: list[tuple[Any, str, str | None]] = []
    if reply.thinking:
        blocks.append(("thinking", reply.thinking, None))
    if reply.text:
        blocks.append(("text", reply.text, None))
    blocks += [("tool_use", "", call["name"]) for call in reply.tool_calls]
    for index, (kind, text, name) in enumerate(blocks):
        await emitter.block_start(index, kind, name)
        for word in _WORDS.findall(text):
            await emitter.block_delta(index, word)
        if reply.error is None or index < len(blocks) - 1:
            await emitter.block_end(index)


def _scripted(error: dict[str, Any]) -> llm_errors.LLMError:
    kind: type[llm_errors.LLMError] = getattr(llm_errors, error["type"])
    facts = {key: error[key] for key in ("retryable", "status_code", "retry_after") if key in error}
    return kind(error["message"], provider="mock", **facts)


def _since(started: float) -> dict[str, int]:
    return {"duration_ms": round((time.monotonic() - started) * 1000)}
