"""OpenAI's chat completions, as its official SDK reads them and as other servers send them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from amplifier_testing.llm.reply import Reply, sse
from amplifier_testing.llm.script import Said
from amplifier_testing.llm.server import Heard

__all__ = ["ChatWire"]

_REASONS: Final = {"tool_use": "tool_calls"}


class ChatWire:
    """Speak chat completions: `POST /v1/chat/completions`, streamed or whole, and `GET /v1/models`."""

    path = "/v1/chat/completions"
    #: The chunk with the role, and the first text.
    first_text = 2

    def __init__(self, reasoning: str = "reasoning_content") -> None:
        """Send thinking in the field `reasoning`."""
        self._reasoning = reasoning

    def reply(self, said: Said) -> Reply:
        """Return a streamed completion: the role, thinking, text, calls in pieces, the reason, the usage, the end."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{self._reasoning: piece, "reasoning_details": [_detail(text=piece)]} for piece in said.thinking]
        if said.thinking:
            deltas.append({"reasoning_details": [_detail(signature=said.signature)]})
        deltas += [{"content": piece} for piece in said.text]
        for index, call in enumerate(said.calls):
            deltas += [{"tool_calls": [{"index": index, **piece}]} for piece in _pieces(call)]
        events = [self.chunk(delta, model=said.model) for delta in deltas]
        events.append(self.chunk({}, _REASONS.get(said.reason, said.reason), model=said.model))
        usage = sse({**_head(said.model, "chat.completion.chunk"), "choices": [], "usage": _usage(said)})
        return Reply.stream([*events, usage, sse("[DONE]")]).with_headers(**said.headers)

    def whole(self, said: Said) -> Reply:
        """Return a completion in one piece."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(said.text) or None}
        if said.thinking:
            text = "".join(said.thinking)
            message |= {self._reasoning: text, "reasoning_details": [_detail(text=text, signature=said.signature)]}
        if said.calls:
            message["tool_calls"] = [_whole_call(call) for call in said.calls]
        choice = {"index": 0, "message": message, "finish_reason": _REASONS.get(said.reason, said.reason)}
        body = {**_head(said.model, "chat.completion"), "choices": [choice], "usage": _usage(said)}
        return Reply.json(body).with_headers(**said.headers)

    def either(self, said: Said) -> Callable[[Heard], Reply]:
        """Return what answers as it is asked to: streamed or whole."""
        return lambda heard: self.reply(said) if (heard.json or {}).get("stream") else self.whole(said)

    def chunk(self, delta: dict[str, Any], finish: str | None = None, *, model: str = "", **more: Any) -> bytes:
        """Return one chunk, for streams of one's own making."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return sse({**_head(model, "chat.completion.chunk"), "choices": [choice], **more})

    def refusal(self, status: int, kind: str, message: str, **headers: str) -> Reply:
        """Return an error of the API."""
        error = {"message": message, "type": kind or "invalid_request_error", "param": None, "code": kind or None}
        return Reply.error(status, {"error": error}, **headers)

    def error_event(self, kind: str, message: str) -> bytes:
        """Return an error in the middle of a stream."""
        return sse({"error": {"message": message, "type": kind, "param": None, "code": kind}})

    def ping(self) -> bytes:
        """Return what keeps a connection alive and says nothing."""
        return b": ping\n\n"

    def garbage(self) -> bytes:
        """Return an event whose JSON is broken."""
        return sse('{"id": "chatcmpl-test", "choices": [{"index": 0, "delta": {"content": ')

    def models(self, *names: str, **more: Any) -> Reply:
        """Return a list of models; `more` is said of each of them."""
        listed = [{"id": name, "object": "model", "created": 1, "owned_by": "test", **more} for name in names]
        return Reply.json({"object": "list", "data": listed})


def _head(model: str, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-test", "object": kind, "created": 1, "model": model or "test-model"}


def _detail(**fields: str) -> dict[str, Any]:
    return {"type": "reasoning.text", "index": 0, **fields}


def _usage(said: Said) -> dict[str, Any]:
    return {
        "prompt_tokens": said.prompt_tokens,
        "completion_tokens": said.output_tokens,
        "total_tokens": said.total_tokens,
        "prompt_tokens_details": {"cached_tokens": said.cache_read},
    }


def _whole_call(call: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    call_id, name, arguments = call
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def _pieces(call: tuple[str, str, dict[str, Any]]) -> list[dict[str, Any]]:
    call_id, name, arguments = call
    whole = json.dumps(arguments)
    halves = (whole[: len(whole) // 2], whole[len(whole) // 2 :])
    first = {"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
    return [first, *({"function": {"arguments": half}} for half in halves)]
