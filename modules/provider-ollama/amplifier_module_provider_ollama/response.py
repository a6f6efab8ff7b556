"""Read the lines of a streamed answer, and the errors of the server."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from typing import Any, Final
from uuid import uuid4

from amplifier_core.llm_errors import InvalidToolCallError
from amplifier_kit.engine.usage import Counts
from amplifier_kit.llm.errors import ServiceError
from amplifier_kit.llm.prices import Tokens
from amplifier_kit.llm.response import Answer, FinishReason

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
            await _call(call, answer)
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


async def _call(call: Any, answer: Answer) -> None:
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
