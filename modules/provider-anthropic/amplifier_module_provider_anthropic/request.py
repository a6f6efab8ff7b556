"""Build the arguments of a call to the Messages API.

Content is always a list of blocks, with or without a cache mark, and neither the order nor the form of a message
depends on later messages: so a request begins like the request before it, which the service caches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_kit.llm.request import (
    Call,
    Conversation,
    Image,
    LLMCall,
    Part,
    Redacted,
    Result,
    Text,
    Thinking,
    Turn,
    function_parameters,
    instruction_text,
    native_spec,
    read_tool_choice,
    safe_id,
)
from amplifier_kit.llm.structured_output import closed_schema
from amplifier_module_provider_anthropic.config import AnthropicConfig
from amplifier_module_provider_anthropic.models import Abilities, abilities_of

# -- messages --


ORIGIN: Final = "anthropic"
#: Where a message keeps its original blocks, when it used tools that run at Anthropic's.
RAW_CONTENT: Final = "anthropic:content"

_CACHE_MARK: Final = {"cache_control": {"type": "ephemeral"}}
_EMPTY: Final = "(empty)"

Block = dict[str, Any]


def messages_of(conversation: Conversation) -> list[dict[str, Any]]:
    """Return the messages: user and assistant in turns, beginning with the user."""
    messages: list[dict[str, Any]] = []
    for turn in conversation.turns:
        role = "assistant" if turn.role == "assistant" else "user"
        blocks = _blocks(turn)
        if not blocks:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    if messages and messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": [{"type": "text", "text": _EMPTY}]})
    return messages


def _mark_for_cache(messages: list[dict[str, Any]]) -> None:
    """Put cache marks on the last two user messages: the end of this request, and where the one before it ended.

    Hooks may add text for one request only at its very end, which the next request does not have; then the service
    finds the older mark.
    """
    for message in [message for message in reversed(messages) if message["role"] == "user"][:2]:
        block = next((block for block in reversed(message["content"]) if block["type"] in _MARKABLE), None)
        if block is not None:
            block.update(_CACHE_MARK)


_MARKABLE: Final = frozenset({"text", "image", "tool_result"})


def _blocks(turn: Turn) -> list[Block]:
    if turn.role == "assistant":
        return _assistant(turn)
    if turn.role in ("system", "developer"):
        text = instruction_text(turn)
        return [{"type": "text", "text": text}] if text else []
    # The service requires that results come first in a message.
    return _written(sorted(turn.parts, key=lambda part: not isinstance(part, Result)))


def _assistant(turn: Turn) -> list[Block]:
    raw = turn.metadata.get(RAW_CONTENT)
    calls = [part.id for part in turn.parts if isinstance(part, Call)]
    if isinstance(raw, list) and [block.get("id") for block in raw if block.get("type") == "tool_use"] == calls:
        return [dict(block) for block in raw]
    blocks = _written(turn.of_origin(ORIGIN).parts)
    # The service refuses thinking alone.
    return blocks if any(block["type"] in ("text", "tool_use") for block in blocks) else []


def _written(parts: Iterable[Part]) -> list[Block]:
    blocks = [_block(part) for part in parts]
    return [block for block in blocks if block is not None]


def _block(part: Part) -> Block | None:
    match part:
        case Text():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case Image():
            return _image(part)
        case Thinking():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature} if part.signature else None
        case Redacted():
            return {"type": "redacted_thinking", "data": part.data}
        case Call():
            return {"type": "tool_use", "id": safe_id(part.id), "name": part.name, "input": part.arguments}
        case Result():
            content = _written(part.parts) or [{"type": "text", "text": _EMPTY}]
            return {"type": "tool_result", "tool_use_id": safe_id(part.call_id), "content": content}


def _image(image: Image) -> Block:
    if image.data is None:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


# -- the arguments --


_EFFORT_BUDGETS: Final = {"minimal": 1024, "low": 4096, "medium": 16_000, "high": 32_000, "xhigh": 48_000}
_LEAST_BUDGET: Final = 1024
_LONG_CONTEXT: Final = "context-1m-2025-08-07"
_INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
_TASK_BUDGET: Final = "task-budgets-2026-03-13"


def build_payload(call: LLMCall, settings: AnthropicConfig) -> dict[str, Any]:
    """Return the arguments, in the order in which the service caches them: tools, system prompt, messages."""
    able = abilities_of(call.model)
    payload: dict[str, Any] = {"model": call.model}
    tools = _tools(call.request, settings)
    system: list[Block] = [{"type": "text", "text": text} for text in call.conversation.system]
    messages = messages_of(call.conversation)
    if settings.enable_prompt_caching:
        for blocks in (tools, system):
            if blocks:
                blocks[-1] = {**blocks[-1], **_CACHE_MARK}
        _mark_for_cache(messages)
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
    # The SDK has dropped some parameters that the service still accepts for many models.
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
    return {"name": tool.name, "description": tool.description or "", "input_schema": function_parameters(tool)}


def _thinking(call: LLMCall, settings: AnthropicConfig, able: Abilities) -> dict[str, Any] | None:
    """Return the thinking options, None for no thinking: models think only when the loop or the request asks for it."""
    effort = call.request.reasoning_effort
    wanted = bool(call.options.get("extended_thinking")) or effort not in (None, "none")
    # The service does not allow thinking together with a forced tool call.
    is_forced = isinstance(call.request.tool_choice, dict) or call.request.tool_choice in ("required", "any")
    if not wanted or not able.thinks or settings.thinking_type == "disabled" or is_forced:
        return None
    if able.adapts and settings.thinking_type == "adaptive":
        return {"type": "adaptive", "display": settings.thinking_display}
    budget = call.options.get("thinking_budget_tokens") or _EFFORT_BUDGETS.get(effort or "")
    wish = int(budget or settings.thinking_budget_tokens)
    return {"type": "enabled", "budget_tokens": max(_LEAST_BUDGET, min(wish, able.max_output - _LEAST_BUDGET))}


def _max_tokens(call: LLMCall, settings: AnthropicConfig, able: Abilities, thinking: dict[str, Any] | None) -> int:
    wanted = call.request.max_output_tokens or settings.max_tokens or able.max_output
    budget = thinking.get("budget_tokens") if thinking else None
    if budget is not None and wanted <= budget:
        # The budget is part of the limit: leave room for the answer.
        wanted = budget + settings.thinking_budget_buffer
    return min(wanted, able.max_output)


def _sampling(request: ChatRequest, settings: AnthropicConfig, able: Abilities) -> dict[str, Any]:
    if not able.takes_temperature:
        return {}
    if request.temperature is None and request.top_p is not None:
        return {"top_p": request.top_p}  # newer models refuse both together
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
    choice, given = read_tool_choice(request), request.tool_choice
    chosen: dict[str, Any] | None = None
    if choice is not None and choice.mode == "tool":
        chosen = {"type": "tool", "name": choice.name}
    elif isinstance(given, dict):
        chosen = dict(given)
    elif choice is not None:
        chosen = {"type": "any" if choice.mode == "required" else choice.mode}
    if (request.metadata or {}).get("parallel_tool_calls") is False:
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
