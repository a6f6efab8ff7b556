"""Build the body of a call to Ollama."""

from __future__ import annotations

from typing import Any

from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_kit.llm import LLMCall, native_spec
from amplifier_module_provider_ollama.config import OllamaConfig
from amplifier_module_provider_ollama.messages import messages_of

__all__ = ["build_payload"]

Json = dict[str, Any]


def build_payload(call: LLMCall, settings: OllamaConfig) -> Json:
    """Return the body of `POST /api/chat`.

    The server is told to refuse what does not fit its window: else it drops the beginning without a word.
    """
    payload: Json = {"model": call.model}
    tools = _tools(call.request)
    payload |= {"tools": tools} if tools else {}
    payload |= {"messages": messages_of(call.conversation), "stream": True, "truncate": False, "shift": False}
    payload["options"] = _options(call.request, settings)
    think = _think(call, settings)
    payload |= {"think": think} if think is not None else {}
    if call.shape is not None and call.shape.mode == "native":
        payload["format"] = call.shape.schema if call.shape.schema is not None else "json"
    return payload


def _tools(request: ChatRequest) -> list[Json]:
    """Return the tools that may be called: Ollama has no word for the choice, so others are left out."""
    choice = request.tool_choice
    if choice == "none":
        return []
    named = choice if isinstance(choice, str) else None
    if isinstance(choice, dict):
        function = choice.get("function")
        named = function.get("name") if isinstance(function, dict) else choice.get("name")
    tools = list(request.tools or ())
    chosen = [tool for tool in tools if tool.name == named]
    return [native_spec(tool) or _function(tool) for tool in chosen or tools]


def _function(tool: ToolSpec) -> Json:
    schema = {"type": "object", "properties": {}, **tool.parameters}
    function = {"name": tool.name, "description": tool.description or "", "parameters": schema}
    return {"type": "function", "function": function}


def _options(request: ChatRequest, settings: OllamaConfig) -> Json:
    options: Json = {"num_predict": request.max_output_tokens or settings.max_tokens}
    options |= {"num_ctx": settings.num_ctx} if settings.num_ctx else {}
    temperature = request.temperature if request.temperature is not None else settings.temperature
    options |= {"temperature": temperature} if temperature is not None else {}
    options |= {"top_p": request.top_p} if request.top_p is not None else {}
    return options | ({"stop": request.stop} if request.stop else {})


def _think(call: LLMCall, settings: OllamaConfig) -> bool | str | None:
    """Return whether to think; None leaves it to the model."""
    effort = call.request.reasoning_effort
    if not settings.enable_thinking or effort == "none":
        return False
    if effort is None:
        return True if call.options.get("extended_thinking") else None
    if "gpt-oss" not in call.model:
        return True
    # The one family that takes a word for how hard.
    return {"minimal": "low", "low": "low", "medium": "medium"}.get(effort, "high")
