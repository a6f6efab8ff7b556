"""Anthropic's Messages protocol, as its official SDK reads it."""

from __future__ import annotations

import json
from typing import Any, Final

from amplifier_testing.llm.reply import Reply, sse
from amplifier_testing.llm.script import Said

__all__ = ["AnthropicWire"]

_REASONS: Final = {"stop": "end_turn", "tool_use": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


class AnthropicWire:
    """Speak Anthropic's protocol: `POST /v1/messages` with server-sent events, `GET /v1/models`."""

    path = "/v1/messages"
    #: message_start, content_block_start and the first delta of a text.
    first_text = 3

    def reply(self, said: Said) -> Reply:
        """Return a streamed message."""
        events = [self._start(said)]
        blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        if said.thinking:
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in said.thinking]
            deltas.append({"type": "signature_delta", "signature": said.signature})
            blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
        if said.text:
            blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in said.text]))
        for call_id, name, arguments in said.calls:
            whole = json.dumps(arguments)
            halves = (whole[: len(whole) // 2], whole[len(whole) // 2 :])
            pieces = [{"type": "input_json_delta", "partial_json": half} for half in ("", *halves)]
            blocks.append(({"type": "tool_use", "id": call_id, "name": name, "input": {}}, pieces))
        for index, (block, deltas) in enumerate(blocks):
            events.append(_event("content_block_start", index=index, content_block=block))
            events += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
            events.append(_event("content_block_stop", index=index))
        delta = {"stop_reason": _REASONS.get(said.reason, said.reason), "stop_sequence": None}
        events.append(_event("message_delta", delta=delta, usage={"output_tokens": said.output_tokens}))
        events.append(_event("message_stop"))
        return Reply.stream(events).with_headers(**said.headers)

    def refusal(self, status: int, kind: str, message: str, **headers: str) -> Reply:
        """Return an error of the API."""
        body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_test"}
        return Reply.error(status, body, **headers)

    def error_event(self, kind: str, message: str) -> bytes:
        """Return an error in the middle of a stream."""
        return _event("error", error={"type": kind, "message": message})

    def ping(self) -> bytes:
        """Return what keeps a connection alive and says nothing."""
        return _event("ping")

    def garbage(self) -> bytes:
        """Return an event whose JSON is broken."""
        return sse('{"type": "content_block_delta", "index": 0, "delta": {', "content_block_delta")

    def models(self, *names: str) -> Reply:
        """Return a list of models."""
        moment = "2026-01-01T00:00:00Z"
        listed = [
            {"type": "model", "id": name, "display_name": name.title(), "created_at": moment, "lifecycle": "active"}
            for name in names
        ]
        return Reply.json({"data": listed, "has_more": False, "first_id": names[0], "last_id": names[-1]})

    def _start(self, said: Said) -> bytes:
        usage = {
            "input_tokens": said.prompt_tokens - said.cache_read - said.cache_write,
            "cache_read_input_tokens": said.cache_read,
            "cache_creation_input_tokens": said.cache_write,
            "output_tokens": 1,
        }
        message: dict[str, Any] = {
            "id": "msg_test",
            "type": "message",
            "role": "assistant",
            "model": said.model or "claude-sonnet-4-5",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return _event("message_start", message=message)


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, kind)
