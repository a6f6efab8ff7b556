"""OpenAI's Responses protocol, as its official SDK reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from amplifier_testing.llm.reply import Reply, sse
from amplifier_testing.llm.script import Said

__all__ = ["ResponsesWire"]

_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}

Item = dict[str, Any]

#: What an item has not yet when it begins.
_EMPTY: Final[dict[str, Item]] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "reasoning": {"summary": []},
}


class ResponsesWire:
    """Speak the Responses protocol: `POST /v1/responses` with server-sent events, `GET /v1/models`."""

    path = "/v1/responses"
    #: response.created, output_item.added, content_part.added and the first delta of a text.
    first_text = 4

    def reply(self, said: Said) -> Reply:
        """Return a streamed response."""
        items: list[tuple[Item, list[Item]]] = []
        if said.thinking:
            items.append(self._reasoning(said))
        if said.text:
            items.append(self.message(*said.text))
        items += [self.function(call_id, name, json.dumps(given)) for call_id, name, given in said.calls]
        incomplete = _INCOMPLETE.get(said.reason)
        return self.stream(items, said=said, incomplete=incomplete).with_headers(**said.headers)

    def stream(
        self,
        items: Sequence[tuple[Item, list[Item]]],
        *,
        said: Said | None = None,
        incomplete: str | None = None,
        response_id: str = "resp_test",
    ) -> Reply:
        """Return a response of these items, each with the events between its start and its end."""
        whole = self.response([item for item, _ in items], said=said, incomplete=incomplete, response_id=response_id)
        events: list[Item] = [{"type": "response.created", "response": {**whole, "output": [], "usage": None}}]
        for index, (item, inner) in enumerate(items):
            begun = {**item, **_EMPTY.get(item["type"], {}), "status": "in_progress"}
            events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
            place = {"output_index": index, "item_id": item["id"]}
            events += [{**event, **place} for event in inner]
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        events.append({"type": "response.incomplete" if incomplete else "response.completed", "response": whole})
        return Reply.stream(_event({**event, "sequence_number": number}) for number, event in enumerate(events))

    def response(
        self,
        output: list[Item],
        *,
        said: Said | None = None,
        status: str | None = None,
        incomplete: str | None = None,
        response_id: str = "resp_test",
        error: Item | None = None,
    ) -> Item:
        """Return a whole response."""
        said = said or Said()
        usage = {
            "input_tokens": said.prompt_tokens,
            "input_tokens_details": {"cached_tokens": said.cache_read, "cache_write_tokens": said.cache_write},
            "output_tokens": said.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": said.total_tokens,
        }
        return {
            "id": response_id,
            "object": "response",
            "created_at": 1767225600,
            "model": said.model or "gpt-5.5",
            "status": status or ("incomplete" if incomplete else "completed"),
            "incomplete_details": {"reason": incomplete} if incomplete else None,
            "error": error,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage,
        }

    def message(self, *pieces: str, item_id: str = "msg_test", **facts: Any) -> tuple[Item, list[Item]]:
        """Return a message whose text comes in these pieces."""
        part = {"type": "output_text", "text": "".join(pieces), "annotations": facts.pop("annotations", [])}
        item = {"type": "message", "role": "assistant", "content": [part], "status": "completed"}
        at = {"content_index": 0}
        events: list[Item] = [{"type": "response.content_part.added", "part": {**part, "text": ""}, **at}]
        events += [{"type": "response.output_text.delta", "delta": piece, "logprobs": [], **at} for piece in pieces]
        events.append({"type": "response.output_text.done", "text": part["text"], "logprobs": [], **at})
        events.append({"type": "response.content_part.done", "part": part, **at})
        return {**item, "id": item_id, **facts}, events

    def function(self, call_id: str, name: str, arguments: str, **facts: Any) -> tuple[Item, list[Item]]:
        """Return a call whose arguments come in two halves."""
        halves = (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :])
        kind = "response.function_call_arguments"
        events: list[Item] = [{"type": f"{kind}.delta", "delta": half} for half in halves]
        events.append({"type": f"{kind}.done", "arguments": arguments, "name": name})
        item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        return {**item, "id": f"fc_{call_id}", "status": "completed", **facts}, events

    def reasoning(self, *parts: Sequence[str], item_id: str = "rs_test", **facts: Any) -> tuple[Item, list[Item]]:
        """Return reasoning with the parts of its summary, each in pieces."""
        summary = [{"type": "summary_text", "text": "".join(pieces)} for pieces in parts]
        kind = "response.reasoning_summary"
        events: list[Item] = []
        for index, pieces in enumerate(parts):
            at = {"summary_index": index}
            events.append({"type": f"{kind}_part.added", "part": {"type": "summary_text", "text": ""}, **at})
            events += [{"type": f"{kind}_text.delta", "delta": piece, **at} for piece in pieces]
            events.append({"type": f"{kind}_text.done", "text": summary[index]["text"], **at})
            events.append({"type": f"{kind}_part.done", "part": summary[index], **at})
        return {"type": "reasoning", "id": item_id, "summary": summary, **facts}, events

    def refusal(self, status: int, kind: str, message: str, **headers: str) -> Reply:
        """Return an error of the API."""
        body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": kind or None}}
        return Reply.error(status, body, **headers)

    def error_event(self, kind: str, message: str) -> bytes:
        """Return an error in the middle of a stream."""
        return _event({"type": "error", "code": kind, "message": message, "param": None, "sequence_number": 99})

    def ping(self) -> bytes:
        """Return what keeps a connection alive and says nothing."""
        return b": ping\n\n"

    def garbage(self) -> bytes:
        """Return an event whose JSON is broken."""
        return sse('{"type": "response.output_text.delta", "delta": "', "response.output_text.delta")

    def models(self, *names: str) -> Reply:
        """Return a list of models."""
        listed = [{"id": name, "object": "model", "created": 1767225600, "owned_by": "openai"} for name in names]
        return Reply.json({"object": "list", "data": listed})

    def _reasoning(self, said: Said) -> tuple[Item, list[Item]]:
        return self.reasoning(said.thinking, encrypted_content=said.signature)


def _event(event: Item) -> bytes:
    return sse(event, event["type"])
