"""Build the arguments of `chat.completions.create`."""

from __future__ import annotations

from typing import Any, Final

from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_kit.llm.call import LLMCall
from amplifier_kit.llm.chat.config import ChatConfig
from amplifier_kit.llm.chat.messages import ORIGIN, messages_of
from amplifier_kit.llm.conversation import native_spec
from amplifier_kit.llm.structured import Shape

__all__ = ["chat_payload"]

_CHOICES: Final = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def chat_payload(
    call: LLMCall, settings: ChatConfig, *, origin: str = ORIGIN, json_mode: bool = False
) -> dict[str, Any]:
    """Return the arguments, without those that say whether to stream; thinking of that `origin` goes back with them.

    `json_mode` asks for JSON besides asking for a schema in words, for servers that know no schemas.
    """
    request = call.request
    payload: dict[str, Any] = {"model": call.model}
    tools = [native_spec(tool) or _function(tool) for tool in request.tools or ()]
    if tools:
        payload["tools"] = tools
    messages = messages_of(call.conversation, origin=origin, with_reasoning=settings.send_reasoning)
    payload["messages"] = messages
    if tools:
        payload |= _tool_choice(request, settings)
    wished = {
        "max_tokens": request.max_output_tokens or settings.max_tokens or None,
        "temperature": _first(request.temperature, settings.temperature),
        "top_p": _first(request.top_p, settings.top_p),
        "stop": list(request.stop or settings.stop) or None,
        "seed": settings.seed,
        "reasoning_effort": _effort(request.reasoning_effort or settings.reasoning_effort),
        "response_format": _format(call.shape, json_mode),
        "user": call.session_id,
        "extra_body": dict(settings.extra_body) or None,
    }
    return payload | {name: value for name, value in wished.items() if value is not None}


def _first(asked: float | None, configured: float | None) -> float | None:
    return asked if asked is not None else configured


def _effort(effort: str | None) -> str | None:
    return None if effort == "none" else effort


def _function(tool: ToolSpec) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}, **tool.parameters}
    described = {"name": tool.name, "description": tool.description or "", "parameters": schema}
    return {"type": "function", "function": described}


def _tool_choice(request: ChatRequest, settings: ChatConfig) -> dict[str, Any]:
    parallel = (request.metadata or {}).get("parallel_tool_calls", settings.parallel_tool_calls)
    chosen: dict[str, Any] = {"parallel_tool_calls": bool(parallel)}
    choice = request.tool_choice
    if isinstance(choice, dict):
        function = choice.get("function")
        named = function.get("name") if isinstance(function, dict) else choice.get("name")
        kind = choice.get("type")
        return {"tool_choice": _named(named) if named else _CHOICES.get(str(kind), choice), **chosen}
    if choice:
        return {"tool_choice": _CHOICES.get(choice) or _named(choice), **chosen}
    return chosen


def _named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _format(shape: Shape | None, json_mode: bool) -> dict[str, Any] | None:
    if shape is None or (shape.mode != "native" and not json_mode):
        return None
    if shape.mode != "native" or shape.schema is None:
        return {"type": "json_object"}
    # Servers make a grammar of the schema: it is given whole, with its limits, which keep small models from rambling.
    named = {"name": "answer", "schema": shape.schema}
    return {"type": "json_schema", "json_schema": {**named, "strict": True} if shape.strict else named}
