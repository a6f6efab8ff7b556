"""Build the arguments of `responses.create`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_kit.llm.call import LLMCall
from amplifier_kit.llm.conversation import native_spec
from amplifier_kit.llm.responses.abilities import Abilities
from amplifier_kit.llm.responses.config import ResponsesConfig
from amplifier_kit.llm.responses.items import PATCH_TOOL, Item
from amplifier_kit.llm.structured import Shape, closed_schema

__all__ = ["Plan", "build_payload", "is_plain_object"]

logger = logging.getLogger(__name__)

#: Tools that run at the service's: each of them gives a model for research something to look at.
_SOURCES: Final = ("web_search", "file_search", "mcp")
_told: Final[set[str]] = set()


@dataclass(frozen=True)
class Plan:
    """What a payload is made from besides the call."""

    settings: ResponsesConfig
    able: Abilities
    #: Whether the service is to keep the response.
    stores: bool
    #: Whether the tool `apply_patch` is the service's own.
    patches_natively: bool


def build_payload(call: LLMCall, plan: Plan, items: list[Item], previous: str | None) -> dict[str, Any]:
    """Return the arguments; `items` go on from the response `previous`, when there is one."""
    settings, able, request = plan.settings, plan.able, call.request
    tools = _tools(request, plan)
    reasoning = _reasoning(call, plan)
    payload: dict[str, Any] = {"model": call.model}
    payload |= {"instructions": "\n\n".join(call.conversation.system)} if call.conversation.system else {}
    payload |= {"tools": tools} if tools else {}
    payload |= {"input": items, "store": plan.stores}
    payload |= {"previous_response_id": previous} if previous else {}
    payload["max_output_tokens"] = min(request.max_output_tokens or settings.max_tokens, able.max_output)
    payload |= {"reasoning": reasoning} if reasoning else {}
    payload |= {"include": ["reasoning.encrypted_content"]} if able.thinks else {}
    payload |= _sampling(request, settings, reasoning, able)
    payload |= {"text": {"format": _format(call.shape)}} if call.shape and call.shape.mode == "native" else {}
    choice = _tool_choice(request, tools)
    payload |= {"tool_choice": choice} if choice is not None and tools else {}
    parallel = (request.metadata or {}).get("parallel_tool_calls")
    payload |= {"parallel_tool_calls": bool(parallel)} if parallel is not None and tools else {}
    payload |= {"background": True} if able.runs_in_background else {}
    payload |= _whole_session(call, plan)
    if request.stop:
        _tell_of_stop()
    return payload


def _whole_session(call: LLMCall, plan: Plan) -> dict[str, Any]:
    """Return what is the same for every call of a session."""
    settings = plan.settings
    retention, is_given = settings.prompt_cache_retention, settings.is_given("prompt_cache_retention")
    same = {
        "truncation": settings.truncation,
        "prompt_cache_key": settings.prompt_cache_key,
        "prompt_cache_retention": retention if plan.able.caches_long or is_given else None,
        "safety_identifier": settings.safety_identifier,
        "metadata": {"session_id": call.session_id} if call.session_id else None,
    }
    return {key: value for key, value in same.items() if value is not None}


def _tools(request: ChatRequest, plan: Plan) -> list[Item]:
    tools = [_tool(tool, plan) for tool in request.tools or ()]
    if not plan.able.takes_functions:
        tools = [tool for tool in tools if tool["type"] != "function"]
        if not any(tool["type"].startswith(_SOURCES) for tool in tools):
            tools.append({"type": "web_search_preview"})
    return tools


def _tool(tool: ToolSpec, plan: Plan) -> Item:
    native = native_spec(tool)
    if native is not None:
        return {key: value for key, value in native.items() if key != "name"}
    if tool.name == PATCH_TOOL and plan.patches_natively and plan.able.patches:
        return {"type": PATCH_TOOL}
    schema = {"type": "object", "properties": {}, **tool.parameters}
    # Without saying so, the service would hold calls to the schema in a way that few schemas allow.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description or "",
        "parameters": schema,
        "strict": False,
    }


def _reasoning(call: LLMCall, plan: Plan) -> dict[str, Any]:
    """Return how to think; only what the request, the loop or the config asks for is said."""
    settings, able = plan.settings, plan.able
    wish = call.request.reasoning_effort or settings.reasoning.get("effort")
    if not able.thinks or not (wish or settings.reasoning or call.options.get("extended_thinking")):
        return {}
    reasoning = dict(settings.reasoning)
    if wish:
        reasoning["effort"] = able.effort(str(wish))
    if settings.reasoning_summary and reasoning.get("effort") != "none":
        reasoning.setdefault("summary", settings.reasoning_summary)
    return reasoning


def _sampling(
    request: ChatRequest, settings: ResponsesConfig, reasoning: dict[str, Any], able: Abilities
) -> dict[str, Any]:
    if able.thinks and reasoning.get("effort") != "none":
        return {}  # models that think refuse both
    temperature = request.temperature if request.temperature is not None else settings.temperature
    sampling = {"temperature": temperature, "top_p": request.top_p}
    return {key: value for key, value in sampling.items() if value is not None}


def is_plain_object(schema: Any) -> bool:
    """Tell whether a schema is one of an object, which is all that the service takes."""
    return isinstance(schema, dict) and schema.get("type") == "object" and "anyOf" not in schema


def _format(shape: Shape) -> Item:
    schema, strict = shape.json_schema, False
    try:
        closed, demanding = closed_schema(schema), closed_schema(schema, all_required=True)
    except ValueError:
        closed = demanding = None  # open on purpose: the service is told, and the answer is checked here
    if closed is not None and (shape.strict or _sorted(closed) == _sorted(demanding)):
        schema, strict = demanding, True
    return {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}


def _sorted(schema: Any) -> Any:
    """Return a schema whose lists of required names can be compared."""
    if isinstance(schema, list):
        return [_sorted(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: sorted(value) if key == "required" and isinstance(value, list) else _sorted(value)
        for key, value in schema.items()
    }


def _tool_choice(request: ChatRequest, tools: list[Item]) -> Any:
    choice = request.tool_choice
    if choice is None or choice in ("auto", "none", "required"):
        return choice
    if isinstance(choice, str):
        return "required" if choice == "any" else _named(choice, tools)
    function = choice.get("function")
    name = function.get("name") if isinstance(function, dict) else choice.get("name")
    if name:
        return _named(str(name), tools)
    return {"any": "required", "auto": "auto", "none": "none"}.get(str(choice.get("type"))) or dict(choice)


def _named(name: str, tools: list[Item]) -> Item:
    is_function = any(tool.get("name") == name for tool in tools)
    hosted = any(tool["type"] == name for tool in tools)
    return {"type": name} if hosted and not is_function else {"type": "function", "name": name}


def _tell_of_stop() -> None:
    if "stop" not in _told:
        _told.add("stop")
        logger.warning("the Responses API has no stop sequences: `stop` of the request is left out")
