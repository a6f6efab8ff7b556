"""Build what a call to Gemini says."""

from __future__ import annotations

from typing import Any, Final

from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_kit.llm import LLMCall, native_spec
from amplifier_module_provider_gemini.config import GeminiConfig
from amplifier_module_provider_gemini.contents import contents_of, system_of
from amplifier_module_provider_gemini.models import Abilities, abilities_of

__all__ = ["build_payload"]

_BUDGETS: Final = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576}
#: The model decides itself.
_DYNAMIC: Final = -1
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY", "any": "ANY"}

Json = dict[str, Any]


def build_payload(call: LLMCall, settings: GeminiConfig) -> Json:
    """Return model, contents and config, in the JSON of the service."""
    able = abilities_of(call.model)
    request = call.request
    wanted: Json = {}
    system = system_of(call.conversation)
    wanted |= {"systemInstruction": system} if system else {}
    tools = _tools(request)
    wanted |= {"tools": tools} if tools else {}
    choice = _tool_choice(request)
    if choice and any("functionDeclarations" in tool for tool in tools):
        wanted["toolConfig"] = {"functionCallingConfig": choice}
    thinking = _thinking(call, able)
    wanted["maxOutputTokens"] = _max_tokens(request, settings, able, thinking)
    wanted |= _sampling(request, settings, able)
    wanted |= {"stopSequences": request.stop} if request.stop else {}
    wanted |= {"thinkingConfig": thinking} if thinking else {}
    if call.shape is not None and call.shape.mode == "native":
        wanted["responseMimeType"] = "application/json"
        if call.shape.schema is not None:
            wanted["responseJsonSchema"] = _schema(call.shape.schema)
    return {
        "model": call.model,
        "contents": contents_of(call.conversation, is_third=able.is_third),
        "config": {**wanted, "automaticFunctionCalling": {"disable": True}},
    }


def _tools(request: ChatRequest) -> list[Json]:
    """Return one tool with all functions, and each of Google's own as it is."""
    functions, own = [], []
    for tool in request.tools or ():
        native = native_spec(tool)
        if native is None:
            functions.append(_function(tool))
        else:
            given = {key: value for key, value in native.items() if key not in ("type", "name")}
            own.append({native["type"]: given})
    return [*([{"functionDeclarations": functions}] if functions else []), *own]


def _function(tool: ToolSpec) -> Json:
    schema = _schema({"type": "object", "properties": {}, **tool.parameters})
    return {"name": tool.name, "description": tool.description or "", "parametersJsonSchema": schema}


def _schema(schema: Json) -> Json:
    return {key: value for key, value in schema.items() if key != "$schema"}


def _tool_choice(request: ChatRequest) -> Json | None:
    choice = request.tool_choice
    if choice is None:
        return None
    if isinstance(choice, str):
        mode = _MODES.get(choice)
        return {"mode": mode} if mode else {"mode": "ANY", "allowedFunctionNames": [choice]}
    function = choice.get("function")
    named = function.get("name") if isinstance(function, dict) else choice.get("name")
    if named:
        return {"mode": "ANY", "allowedFunctionNames": [named]}
    return {"mode": _MODES.get(str(choice.get("type")), "AUTO")}


def _thinking(call: LLMCall, able: Abilities) -> Json | None:
    """Return how to think; None leaves it to the model, which then keeps its thoughts to itself."""
    effort = call.request.reasoning_effort
    if not able.thinks or (effort is None and not call.options.get("extended_thinking")):
        return None
    if able.has_levels:
        level = _level(effort, able)
        shown = {} if effort == "none" else {"includeThoughts": True}
        return {**shown, **({"thinkingLevel": level} if level else {})}
    if effort == "none":
        return {"thinkingBudget": able.least_budget}
    wish = call.options.get("thinking_budget_tokens") or (_BUDGETS.get(effort, able.most_budget) if effort else None)
    budget = _DYNAMIC if wish is None else max(able.least_budget, min(int(wish), able.most_budget))
    return {"includeThoughts": True, "thinkingBudget": budget}


def _level(effort: str | None, able: Abilities) -> str | None:
    if effort is None:
        return None
    if effort in ("none", "minimal"):
        return "MINIMAL" if able.has_minimal else "LOW"
    if effort == "medium":
        return "MEDIUM" if able.has_medium else "HIGH"
    return "LOW" if effort == "low" else "HIGH"


def _max_tokens(request: ChatRequest, settings: GeminiConfig, able: Abilities, thinking: Json | None) -> int:
    """Return the limit of the whole answer: the service counts thoughts in, and a model thinks unless told not to.

    What a request asks for is meant as it is, except that a budget for thinking must leave room behind it.
    """
    budget = (thinking or {}).get("thinkingBudget", _DYNAMIC)
    if request.max_output_tokens:
        wanted = request.max_output_tokens
        return min(wanted + budget if budget >= wanted else wanted, able.max_output)
    room = 0 if not able.thinks else able.most_budget if budget == _DYNAMIC else budget
    return min(settings.max_tokens + room, able.max_output)


def _sampling(request: ChatRequest, settings: GeminiConfig, able: Abilities) -> Json:
    sampling: Json = {}
    if request.temperature is not None:
        sampling["temperature"] = request.temperature
    elif settings.temperature is not None and (settings.is_given("temperature") or not able.is_third):
        # Models of the third generation go in circles below their own temperature, as Google says.
        sampling["temperature"] = settings.temperature
    return sampling | ({"topP": request.top_p} if request.top_p is not None else {})
