"""Requests in the form of the service, and its answers."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any, Final
from uuid import uuid4

from amplifier_core.llm_errors import InvalidToolCallError
from amplifier_core.message_models import ChatRequest
from amplifier_kit.engine.usage import Counts
from amplifier_kit.llm.errors import ServiceError
from amplifier_kit.llm.prices import Tokens
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
from amplifier_kit.llm.response import Answer, FinishReason
from amplifier_module_provider_ollama.config import OllamaConfig

# --- requests ---

# -- messages --


ORIGIN: Final = "ollama"

_EMPTY: Final = "(empty)"

Json = dict[str, Any]


def messages_of(conversation: Conversation) -> list[Json]:
    """Return the messages; images of results follow in a user message, after all results of their group."""
    messages: list[Json] = [{"role": "system", "content": text} for text in conversation.system if text.strip()]
    shown: list[str] = []
    for turn in conversation.turns:
        if turn.role != "tool" and shown:
            messages.append(_shown(shown))
            shown = []
        message = _message(turn)
        if message is not None:
            messages.append(message)
        for part in turn.parts:
            if isinstance(part, Result):
                shown += _images(part.images)
    return [*messages, _shown(shown)] if shown else messages


def _message(turn: Turn) -> Json | None:
    if turn.role == "assistant":
        return _assistant(turn)
    if turn.role == "tool":
        return _result(turn)
    if turn.role in ("system", "developer"):
        # Many templates would move a system message to the front.
        text = instruction_text(turn)
        return {"role": "user", "content": text} if text else None
    given = [part for part in turn.parts if isinstance(part, Image)]
    text = "\n".join([*([turn.text] if turn.text.strip() else []), *_links(given)])
    images = _images(given)
    if not text and not images:
        return None
    return {"role": "user", "content": text, **({"images": images} if images else {})}


def _assistant(turn: Turn) -> Json | None:
    kept = turn.of_origin(ORIGIN).parts
    text = "".join(part.text for part in kept if isinstance(part, Text))
    calls = [_call(part) for part in kept if isinstance(part, Call)]
    if not text.strip() and not calls:
        return None
    thinking = "".join(part.text for part in kept if isinstance(part, Thinking))
    message: Json = {"role": "assistant", "content": text}
    message |= {"thinking": thinking} if thinking else {}
    return message | ({"tool_calls": calls} if calls else {})


def _call(call: Call) -> Json:
    return {"id": safe_id(call.id), "function": {"name": call.name, "arguments": call.arguments}}


def _result(turn: Turn) -> Json:
    [result] = [part for part in turn.parts if isinstance(part, Result)]
    text = "\n".join([*([result.text] if result.text.strip() else []), *_links(result.images)])
    content = text or ("(see the image)" if result.images else _EMPTY)
    return {
        "role": "tool",
        "content": content,
        "tool_name": result.name or "tool",
        "tool_call_id": safe_id(result.call_id),
    }


def _shown(images: list[str]) -> Json:
    return {"role": "user", "content": "The images of the results above:", "images": images}


def _images(images: Iterable[Image]) -> list[str]:
    return [image.data for image in images if image.data is not None]


def _links(images: Iterable[Image]) -> list[str]:
    """Return texts in place of images with a URL, which Ollama does not fetch."""
    return [f"[image: {image.url}]" for image in images if image.data is None]


# -- the body --


def build_payload(call: LLMCall, settings: OllamaConfig) -> Json:
    """Return the body of `POST /api/chat`.

    The server must refuse a conversation that does not fit its window: by default, it silently drops the beginning.
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
    """Return the tools that the model may call: Ollama has no tool choice, so the others are left out."""
    choice = read_tool_choice(request)
    if choice is not None and choice.mode == "none":
        return []
    tools = list(request.tools or ())
    chosen = [tool for tool in tools if choice is not None and tool.name == choice.name]
    return [native_spec(tool) or function_tool(tool) for tool in chosen or tools]


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
    # The only family with levels of effort.
    return {"minimal": "low", "low": "low", "medium": "medium"}.get(effort, "high")


# --- answers ---

_TIMES: Final = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


async def read_lines(lines: AsyncIterable[Mapping[str, Any]], answer: Answer) -> None:
    """Read all lines, and finish the answer if the server reported its end; raises InvalidToolCallError."""
    has_calls = False
    last: Mapping[str, Any] | None = None
    async for line in lines:
        message = line.get("message") or {}
        if message.get("thinking"):
            await answer.say("thinking", message["thinking"])
        if message.get("content"):
            await answer.say("text", message["content"])
        for call in message.get("tool_calls") or ():
            has_calls = True
            await _add_call(call, answer)
        if line.get("done"):
            last = line
    if last is None:
        return  # incomplete, which `Answer.response` reports
    reason = str(last.get("done_reason") or "stop")
    answer.model = last.get("model") or None
    counts = Counts(last, "answer")
    answer.tokens = Tokens(prompt=counts.need("prompt_eval_count"), output=counts.need("eval_count"))
    answer.metadata["ollama:done_reason"] = reason
    answer.metadata |= {f"ollama:{name}": last[name] for name in _TIMES if last.get(name)}
    finish: FinishReason = "length" if reason == "length" else "tool_use" if has_calls else "stop"
    await answer.finish(finish)


async def _add_call(call: Any, answer: Answer) -> None:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not name:
        raise InvalidToolCallError("the model made a tool call without a name", raw_arguments=str(call), retryable=True)
    arguments = function.get("arguments")
    whole = dict(arguments) if isinstance(arguments, Mapping) else str(arguments or "")
    await answer.call(str(call.get("id") or f"call_{uuid4().hex[:24]}"), str(name), whole)


# -- errors --


_OVERFLOW: Final = ("context length", "context size", "exceed_context")


class OllamaError(ServiceError):
    """An error of the server, with the headers of the response, which the SDK's ResponseError lacks."""

    @classmethod
    def of(cls, error: Any, headers: Mapping[str, str]) -> OllamaError:
        """Return the error for a ResponseError of the SDK; one inside a stream has no status."""
        text, status = str(error.error), int(error.status_code)
        if status < 0:
            status = 400 if any(phrase in text.lower() for phrase in _OVERFLOW) else 500
        return cls(text, status, headers)

    @property
    def is_overflow(self) -> bool:
        """Whether the conversation does not fit the window."""
        return any(phrase in str(self).lower() for phrase in _OVERFLOW)

    @property
    def is_unknown_model(self) -> bool:
        """Whether the server does not have the model."""
        return self.status_code == 404 and "not found" in str(self)

    @property
    def is_about_thinking(self) -> bool:
        """Whether the model cannot think."""
        return "does not support thinking" in str(self)
