"""A provider with the five methods of the published protocol."""

from typing import Any

from amplifier_core import ChatRequest, ChatResponse, ModelInfo, ProviderInfo, TextBlock, ToolCall, Usage

__amplifier_module_type__ = "provider"


class CensusProvider:
    name = "census"

    def __init__(self, config: dict[str, Any], coordinator: Any) -> None:
        self.config = config
        self.coordinator = coordinator
        self.priority = config.get("priority", 100)
        self.default_model = config.get("default_model", "census-1")

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="census", display_name="Census", capabilities=["tools"], defaults={"model": "census-1"})

    async def list_models(self) -> list[ModelInfo]:
        return [ModelInfo(id="census-1", display_name="Census", context_window=1000, max_output_tokens=100)]

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        text = f"{len(request.messages)} messages"
        usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
        return ChatResponse(content=[TextBlock(text=text)], usage=usage, finish_reason="stop")

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return list(response.tool_calls or [])


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    provider = CensusProvider(config or {}, coordinator)
    await coordinator.mount("providers", provider, name="census")
