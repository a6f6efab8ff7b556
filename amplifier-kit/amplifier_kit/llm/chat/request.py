"""Build the arguments of `chat.completions.create` for a call.

Many servers put the messages through a template that accepts little: one system message in front, then user and
assistant in turns. So messages are built like that. The form of a message does not depend on later messages, so that
a longer conversation begins with the same text, which servers cache.
"""

from __future__ import annotations

import json
from typing import Any, Final

from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_kit.llm.chat.config import ChatConfig
from amplifier_kit.llm.request import (
    Call,
    Conversation,
    Image,
    LLMCall,
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
from amplifier_kit.llm.structured_output import Shape

# -- messages --


#: The origin of thinking, unless a provider sets another; thinking of other origins is not sent.
ORIGIN: Final = "chat-completions"
#: The metadata key for the field that thinking arrived in; it is sent back in the same field.
REASONING_FIELD: Final = "chat:reasoning_field"
#: The names of that field; the first is the default.
REASONING_FIELDS: Final = ("reasoning_content", "reasoning")

_EMPTY: Final = "(empty)"

Message = dict[str, Any]


def messages_of(conversation: Conversation, *, origin: str = ORIGIN, with_reasoning: bool = True) -> list[Message]:
    """Return the messages; with `with_reasoning`, including thinking of that origin."""
    messages: list[Message] = []
    #: Images of results, which tool messages cannot hold: they follow the last result as a user message.
    images: list[Text | Image] = []

    def add_user(parts: list[Text | Image]) -> None:
        if parts and messages and messages[-1]["role"] == "user":
            messages[-1]["content"] += parts
        elif parts:
            messages.append({"role": "user", "content": list(parts)})

    for turn in conversation.turns:
        if turn.role == "tool":
            for result in (part for part in turn.parts if isinstance(part, Result)):
                text = result.text or _EMPTY
                messages.append({"role": "tool", "tool_call_id": safe_id(result.call_id), "content": text})
                if result.images:
                    images += [Text(f"Images from {result.name or 'the tool'}:"), *result.images]
            continue
        add_user(images)
        images = []
        if turn.role != "assistant":
            add_user(_shown(turn))
        elif (message := _assistant(turn.of_origin(origin), with_reasoning)) is not None:
            add_user([] if messages else [Text(_EMPTY)])
            messages.append(message)
    add_user(images)
    for message in messages:
        if message["role"] == "user":
            message["content"] = _content(message["content"])
    system = [{"role": "system", "content": "\n\n".join(conversation.system)}] if conversation.system else []
    return [*system, *messages]


def _content(parts: list[Text | Image]) -> Any:
    """Return plain text when there are only texts: not every template accepts parts."""
    if all(isinstance(part, Text) for part in parts):
        return "\n\n".join(part.text for part in parts if isinstance(part, Text))
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": {"url": part.data_url}}
        for part in parts
    ]


def _shown(turn: Turn) -> list[Text | Image]:
    if turn.role in ("system", "developer"):
        text = instruction_text(turn)
        return [Text(text)] if text else []
    return [part for part in turn.parts if isinstance(part, Image) or (isinstance(part, Text) and part.text.strip())]


def _assistant(turn: Turn, with_reasoning: bool) -> Message | None:
    calls = [_call(part) for part in turn.parts if isinstance(part, Call)]
    text = turn.text
    if not calls and not text.strip():
        return None
    message: Message = {"role": "assistant", "content": text}
    if with_reasoning:
        message |= _reasoning(turn)
    return {**message, "tool_calls": calls} if calls else message


def _reasoning(turn: Turn) -> Message:
    thoughts = [part for part in turn.parts if isinstance(part, Thinking)]
    # Signed details are sent back as they came; those of other protocols are not.
    signed = [item for part in thoughts if isinstance(part.content, list) for item in part.content]
    details = [item for item in signed if isinstance(item, dict) and str(item.get("type", "")).startswith("reasoning.")]
    if details:
        return {"reasoning_details": details}
    text = "\n".join(part.text for part in thoughts if part.text)
    field = turn.metadata.get(REASONING_FIELD)
    return {field if field in REASONING_FIELDS else REASONING_FIELDS[0]: text} if text else {}


def _call(call: Call) -> Message:
    function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": safe_id(call.id), "type": "function", "function": function}


# -- the arguments --


def chat_payload(
    call: LLMCall, settings: ChatConfig, *, origin: str = ORIGIN, json_mode: bool = False
) -> dict[str, Any]:
    """Return the arguments, except for those about streaming; they include thinking of that `origin`.

    `json_mode` asks for JSON in addition to a schema in words, for servers that do not support schemas.
    """
    request = call.request
    payload: dict[str, Any] = {"model": call.model}
    tools = [native_spec(tool) or _function(tool) for tool in request.tools or ()]
    if tools:
        payload["tools"] = tools
    payload["messages"] = messages_of(call.conversation, origin=origin, with_reasoning=settings.send_reasoning)
    if tools:
        parallel = (request.metadata or {}).get("parallel_tool_calls", settings.parallel_tool_calls)
        payload["parallel_tool_calls"] = bool(parallel)
    effort = request.reasoning_effort or settings.reasoning_effort
    options = {
        "tool_choice": _tool_choice(request) if tools else None,
        "max_tokens": request.max_output_tokens or settings.max_tokens or None,
        "temperature": request.temperature if request.temperature is not None else settings.temperature,
        "top_p": request.top_p if request.top_p is not None else settings.top_p,
        "stop": list(request.stop or settings.stop) or None,
        "seed": settings.seed,
        "reasoning_effort": None if effort == "none" else effort,
        "response_format": _format(call.shape, json_mode),
        "user": call.session_id,
        "extra_body": dict(settings.extra_body) or None,
    }
    return payload | {name: value for name, value in options.items() if value is not None}


def _function(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description or "", "parameters": function_parameters(tool)}
    return {"type": "function", "function": function}


def _tool_choice(request: ChatRequest) -> Any:
    choice = read_tool_choice(request)
    if choice is None:
        return request.tool_choice or None
    return {"type": "function", "function": {"name": choice.name}} if choice.mode == "tool" else choice.mode


def _format(shape: Shape | None, json_mode: bool) -> dict[str, Any] | None:
    if shape is None or (shape.mode != "native" and not json_mode):
        return None
    if shape.mode != "native" or shape.schema is None:
        return {"type": "json_object"}
    # Servers turn the schema into a grammar: it is sent with its limits, which keep small models from rambling.
    named = {"name": "answer", "schema": shape.schema}
    return {"type": "json_schema", "json_schema": {**named, "strict": True} if shape.strict else named}
