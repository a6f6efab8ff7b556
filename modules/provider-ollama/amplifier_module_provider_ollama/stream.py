"""Feed an answer from the lines of a streamed answer."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from typing import Any, Final
from uuid import uuid4

from amplifier_core.llm_errors import InvalidToolCallError
from amplifier_kit.engine.usage import Counts
from amplifier_kit.llm import Answer, FinishReason, Tokens

__all__ = ["read_lines"]

_REASONS: Final[dict[str, FinishReason]] = {"length": "length"}
_TIMES: Final = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


async def read_lines(lines: AsyncIterable[Mapping[str, Any]], answer: Answer) -> None:
    """Read all lines; finish the answer when the last one says that it is done.

    Raises InvalidToolCallError for a call that is none.
    """
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
        return  # cut short, which the answer knows by itself
    reason = str(last.get("done_reason") or "stop")
    answer.model = last.get("model") or None
    counts = Counts(last, "answer")
    answer.tokens = Tokens(prompt=counts.need("prompt_eval_count"), output=counts.need("eval_count"))
    answer.metadata["ollama:done_reason"] = reason
    answer.metadata |= {f"ollama:{name}": last[name] for name in _TIMES if last.get(name)}
    finish = _REASONS.get(reason, "stop")
    await answer.finish("tool_use" if has_calls and finish == "stop" else finish)


async def _call(call: Any, answer: Answer) -> None:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not name:
        raise InvalidToolCallError("the model's call has no name", raw_arguments=str(call), retryable=True)
    arguments = function.get("arguments")
    whole = dict(arguments) if isinstance(arguments, Mapping) else str(arguments or "")
    await answer.call(str(call.get("id") or f"call_{uuid4().hex[:24]}"), str(name), whole)
