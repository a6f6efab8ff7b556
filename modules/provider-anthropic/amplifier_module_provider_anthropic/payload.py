"""Build the arguments of a call to the Messages API."""

from __future__ import annotations

from typing import Any, Final

from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_kit.llm import LLMCall, closed_schema, native_spec
from amplifier_module_provider_anthropic.config import AnthropicConfig
from amplifier_module_provider_anthropic.messages import mark_for_cache, messages_of, system_of
from amplifier_module_provider_anthropic.models import Abilities, abilities_of

__all__ = ["build_payload"]

_MARK: Final = {"type": "ephemeral"}
_EFFORT_BUDGETS: Final = {"minimal": 1024, "low": 4096, "medium": 16_000, "high": 32_000, "xhigh": 48_000}
_LEAST_BUDGET: Final = 1024
_LONG_CONTEXT: Final = "context-1m-2025-08-07"
_INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
_TASK_BUDGET: Final = "task-budgets-2026-03-13"
_CHOICES: Final = {"auto": {"type": "auto"}, "none": {"type": "none"}}
_ANY: Final = {"required": {"type": "any"}, "any": {"type": "any"}}


def build_payload(call: LLMCall, settings: AnthropicConfig) -> dict[str, Any]:
    """Return the arguments, in the order in which the service caches them: tools, system prompt, messages."""
    able = abilities_of(call.model)
    payload: dict[str, Any] = {"model": call.model}
    tools = _tools(call.request, settings)
    system = system_of(call.conversation)
    messages = messages_of(call.conversation)
    if settings.enable_prompt_caching:
        for blocks in (tools, system):
            if blocks:
                blocks[-1] = {**blocks[-1], "cache_control": dict(_MARK)}
        mark_for_cache(messages)
    payload |= {"tools": tools} if tools else {}
    payload |= {"system": system} if system else {}
    payload["messages"] = messages
    thinking = _thinking(call, settings, able)
    payload["max_tokens"] = _max_tokens(call, settings, able, thinking)
    payload |= {"stop_sequences": call.request.stop} if call.request.stop else {}
    if thinking is not None:
        payload["thinking"] = thinking
    output = _output_config(call, settings, able)
    payload |= {"output_config": output} if output else {}
    choice = _tool_choice(call.request)
    payload |= {"tool_choice": choice} if choice and tools else {}
    payload |= {"metadata": {"user_id": call.session_id}} if call.session_id else {}
    # The SDK has dropped some parameters that the service takes for many models.
    extra = _sampling(call.request, settings, able) if thinking is None else {}
    extra |= {"speed": settings.speed} if settings.speed else {}
    payload |= {"extra_body": extra} if extra else {}
    betas = _betas(settings, able, is_thinking=thinking is not None)
    payload |= {"extra_headers": {"anthropic-beta": ",".join(betas)}} if betas else {}
    return payload


def _tools(request: ChatRequest, settings: AnthropicConfig) -> list[dict[str, Any]]:
    tools = [native_spec(tool) or _function(tool) for tool in request.tools or ()]
    if settings.enable_web_search and not any(tool.get("name") == "web_search" for tool in tools):
        search: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
        if settings.web_search_max_uses:
            search["max_uses"] = settings.web_search_max_uses
        if settings.web_search_user_location:
            search["user_location"] = {"type": "approximate", **settings.web_search_user_location}
        tools.append(search)
    return tools


def _function(tool: ToolSpec) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}, **tool.parameters}
    return {"name": tool.name, "description": tool.description or "", "input_schema": schema}


def _thinking(call: LLMCall, settings: AnthropicConfig, able: Abilities) -> dict[str, Any] | None:
    """Return how to think, None for not at all: only when the loop or the request asks for it."""
    effort = call.request.reasoning_effort
    wanted = bool(call.options.get("extended_thinking")) or effort not in (None, "none")
    if not wanted or not able.thinks or settings.thinking_type == "disabled" or _forces_tool(call.request):
        return None
    display = {"display": settings.thinking_display} if settings.thinking_display else {}
    if able.adapts and settings.thinking_type == "adaptive":
        return {"type": "adaptive", **display}
    budget = call.options.get("thinking_budget_tokens") or _EFFORT_BUDGETS.get(effort or "")
    wish = int(budget or settings.thinking_budget_tokens)
    return {"type": "enabled", "budget_tokens": max(_LEAST_BUDGET, min(wish, able.max_output - _LEAST_BUDGET))}


def _forces_tool(request: ChatRequest) -> bool:
    """Tell whether a tool call is demanded, which the service does not allow together with thinking."""
    choice = request.tool_choice
    return choice in _ANY or isinstance(choice, dict)


def _max_tokens(call: LLMCall, settings: AnthropicConfig, able: Abilities, thinking: dict[str, Any] | None) -> int:
    wanted = call.request.max_output_tokens or settings.max_tokens or able.max_output
    budget = thinking.get("budget_tokens") if thinking else None
    if budget is not None and wanted <= budget:
        # The budget is part of the limit: leave room for the answer behind it.
        wanted = budget + settings.thinking_budget_buffer
    return min(wanted, able.max_output)


def _sampling(request: ChatRequest, settings: AnthropicConfig, able: Abilities) -> dict[str, Any]:
    if not able.takes_temperature:
        return {}
    if request.temperature is None and request.top_p is not None:
        return {"top_p": request.top_p}  # one of both: newer models refuse the pair
    temperature = request.temperature if request.temperature is not None else settings.temperature
    return {"temperature": min(temperature, 1.0)} if temperature is not None else {}


def _output_config(call: LLMCall, settings: AnthropicConfig, able: Abilities) -> dict[str, Any]:
    output: dict[str, Any] = {}
    effort = call.request.reasoning_effort or settings.effort
    if able.takes_effort and effort and effort != "none":
        output["effort"] = "low" if effort == "minimal" else effort
    if call.shape is not None and call.shape.mode == "native":
        output["format"] = {"type": "json_schema", "schema": closed_schema(call.shape.json_schema)}
    if settings.task_budget_tokens:
        output["task_budget"] = {"type": "tokens", "total": settings.task_budget_tokens}
    return output


def _tool_choice(request: ChatRequest) -> dict[str, Any] | None:
    choice = request.tool_choice
    parallel = (request.metadata or {}).get("parallel_tool_calls")
    chosen: dict[str, Any] | None = None
    if isinstance(choice, str):
        chosen = dict(_CHOICES.get(choice) or _ANY.get(choice) or {"type": "tool", "name": choice})
    elif isinstance(choice, dict):
        function = choice.get("function")
        named = function.get("name") if isinstance(function, dict) else choice.get("name")
        chosen = {"type": "tool", "name": named} if named else dict(choice)
    if parallel is False:
        chosen = {**(chosen or {"type": "auto"}), "disable_parallel_tool_use": True}
    return chosen


def _betas(settings: AnthropicConfig, able: Abilities, *, is_thinking: bool) -> list[str]:
    betas = list(settings.beta_headers)
    if settings.enable_1m_context and able.has_long_context_beta:
        betas.append(_LONG_CONTEXT)
    if is_thinking and not able.adapts:
        betas.append(_INTERLEAVED)
    if settings.task_budget_tokens:
        betas.append(_TASK_BUDGET)
    return list(dict.fromkeys(betas))
