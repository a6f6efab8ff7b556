"""A provider without a model: it asks for a word count, then says the number."""

import json
from typing import Any

from amplifier_core import ChatRequest, ChatResponse, ModelInfo, ProviderInfo, TextBlock, ToolCall, Usage
from amplifier_core.events import LLM_REQUEST, LLM_RESPONSE

__amplifier_module_type__ = "provider"

MODEL = "scripted-1"


class ScriptedProvider:
    """Play a model that has one idea: count the words of the prompt."""

    name = "scripted"

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="scripted", display_name="Scripted")

    async def list_models(self) -> list[ModelInfo]:
        return [ModelInfo(id=MODEL, display_name="Scripted 1", context_window=8000, max_output_tokens=1000)]

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        hooks = self._coordinator.hooks
        await hooks.emit(LLM_REQUEST, {"provider": self.name, "model": MODEL})
        response = self._answer(request)
        usage = {"input_tokens": 0, "output_tokens": 0}
        await hooks.emit(LLM_RESPONSE, {"provider": self.name, "model": MODEL, "status": "ok", "usage": usage})
        return response

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []

    def _answer(self, request: ChatRequest) -> ChatResponse:
        last = request.messages[-1]
        usage = Usage(input_tokens=0, output_tokens=0, total_tokens=0)
        if last.role != "tool":
            call = ToolCall(id="call-1", name="count_words", arguments={"text": last.content})
            return ChatResponse(content=[], tool_calls=[call], usage=usage)
        return ChatResponse(content=[TextBlock(text=self._say(str(last.content)))], usage=usage)

    @staticmethod
    def _say(result: str) -> str:
        try:
            return f"I counted {json.loads(result)['words']} words."
        except (ValueError, KeyError, TypeError):
            return f"I could not count: {result}"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    provider = ScriptedProvider(coordinator)
    await coordinator.mount("providers", provider, name=provider.name)
