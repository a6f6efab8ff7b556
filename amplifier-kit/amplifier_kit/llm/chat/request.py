"""The config keys of chat completions, and the arguments of `chat.completions.create` for a call.

Many servers put the messages through a template that accepts little: one system message in front, then user and
assistant in turns. So messages are built like that. The form of a message does not depend on later messages, so that
a longer conversation begins with the same text, which servers cache.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, Strict

from amplifier_core.message_models import ChatRequest
from amplifier_kit.config import expects
from amplifier_kit.llm.config import AnyWhole, Name, Number, PositiveNumber, ProviderConfig, Switch, Temperature, Whole
from amplifier_kit.llm.request import (
    Call,
    Conversation,
    Image,
    LLMCall,
    Result,
    Text,
    Thinking,
    Turn,
    function_tool,
    instruction_text,
    native_spec,
    read_tool_choice,
    safe_id,
)
from amplifier_kit.llm.structured_output import Shape

# -- config --


_StopTexts = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    Strict(False),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    expects("text or a list of texts that are not empty"),
]


class ChatConfig(ProviderConfig):
    tolerated_keys: ClassVar[frozenset[str]] = ProviderConfig.tolerated_keys - {"warmup_retries"}

    timeout: PositiveNumber = Field(
        300.0, description="Seconds to connect and to send, and for an answer that is not streamed."
    )
    max_retries: Whole = Field(3, description="Further attempts after errors that may pass.")
    max_retry_delay: Number = Field(
        30.0, description="Longest delay before a retry; a server that asks for a longer one is not asked again."
    )
    temperature: Temperature = Field(0.7, description="Sampling temperature; null for the server's default.")
    max_tokens: Whole = Field(4096, description="Tokens of the longest answer; 0 for the server's default.")
    top_p: Temperature = Field(None, description="Nucleus sampling; null for the server's default.")
    stop: _StopTexts = Field((), description="Texts at which an answer ends.")
    seed: AnyWhole | None = Field(None, description="Seed for sampling.")
    parallel_tool_calls: Switch = Field(True, description="Let the model make several tool calls at once.")
    reasoning_effort: Name | None = Field(
        None, description="How much the model should think, in the server's words; a request's effort wins."
    )
    send_reasoning: Switch = Field(True, description="Send thinking back with the message that it belongs to.")
    think_tags: Switch = Field(True, description="Read `<think>` at the beginning of a text as thinking.")
    include_usage: Switch = Field(True, description="Ask for token counts in streams.")
    structured_output: Literal["auto", "json_schema", "json_object", "tool", "prompt"] = Field(
        "auto", description="How to ask for an output schema; auto begins with the first way that the server accepts."
    )
    warmup_retries: Whole = Field(10, description="Further attempts while a server reports that it is still starting.")
    free: Switch = Field(False, description="Requests cost nothing.")
    price_list: Name | None = Field(None, description="The service's name in the price list of genai-prices.")
    # Headers and fields may hold secrets: error messages show neither.
    extra_body: dict[str, Any] = Field(
        default_factory=dict, repr=False, description="Further fields of each request, as the server defines them."
    )
    extra_headers: dict[str, Annotated[str, BeforeValidator(str)]] = Field(
        default_factory=dict, repr=False, description="Further headers of each request; they are masked in logs."
    )

    @classmethod
    def is_unset(cls, key: str, value: Any) -> bool:
        """Return whether a value leaves a key at its default; blank text may be a stop sequence."""
        return value is None or value == "" if key == "stop" else super().is_unset(key, value)


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
    tools = [native_spec(tool) or function_tool(tool) for tool in request.tools or ()]
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
