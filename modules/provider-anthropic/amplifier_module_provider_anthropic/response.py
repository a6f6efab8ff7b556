"""Read the events of a streamed message."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable
from typing import Any, Final

from amplifier_kit.engine.usage import Counts
from amplifier_kit.llm.prices import Tokens
from amplifier_kit.llm.response import Answer, FinishReason

_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "pause_turn": "stop",
}


#: Blocks that every provider's messages can hold; others come from tools that run at Anthropic's.
OWN_BLOCKS: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})


class StreamReader:
    """Read one streamed message into an answer, and collect its original blocks."""

    def __init__(self, answer: Answer, number: int = 0) -> None:
        """Read the message with that number of an answer: a paused one is followed by another."""
        self._answer = answer
        self._number = number
        self._counts: dict[str, Any] = {}
        self.blocks: list[dict[str, Any]] = []
        #: The field of each open block that arrives in pieces, and the pieces.
        self._pieces: dict[int, tuple[str, list[str]]] = {}
        self.stop_reason: str | None = None
        self.is_complete = False

    async def read(self, events: AsyncIterable[Any]) -> None:
        """Read all events; the message is complete only when the last one arrived."""
        async for event in events:
            kind = event.type
            if kind == "content_block_delta":
                index, delta = event.index, event.delta
                if delta.type == "text_delta":  # as nearly every token
                    self._keep(index, "text", delta.text)
                    await self._answer.add((self._number, index), delta.text)
                else:
                    await self._delta(index, delta)
            elif kind == "content_block_start":
                await self._start(event.index, event.content_block)
            elif kind == "content_block_stop":
                self._close(event.index)
                await self._answer.end((self._number, event.index))
            elif kind == "message_start":
                self._answer.model = event.message.model or None
                self._count(event.message.usage)
            elif kind == "message_delta":
                self._ended(event)
            elif kind == "message_stop":
                self.is_complete = True

    def tokens(self) -> Tokens:
        """Return the token counts of the message."""
        counts = Counts(self._counts)
        read, written = counts.get("cache_read_input_tokens"), counts.get("cache_creation_input_tokens")
        details = counts.part("output_tokens_details")
        priced: dict[str, int] = {}
        if long := counts.part("cache_creation").get("ephemeral_1h_input_tokens"):
            priced["cache_write_1h_tokens"] = long
        if searches := counts.part("server_tool_use").get("web_search_requests"):
            priced["web_searches"] = searches
        return Tokens(
            prompt=counts.need("input_tokens") + (read or 0) + (written or 0),
            output=counts.need("output_tokens"),
            cache_read=read,
            cache_write=written,
            reasoning=details.get("thinking_tokens"),
            priced=priced,
        )

    @property
    def finish_reason(self) -> FinishReason:
        """The finish reason that all providers share."""
        return _REASONS.get(self.stop_reason or "", "stop")

    async def _start(self, index: int, block: Any) -> None:
        key, kind = (self._number, index), block.type
        self.blocks.append(block.model_dump(exclude_none=True))
        if kind == "text":
            await self._answer.start(key, "text")
            await self._answer.add(key, block.text or "")
        elif kind == "thinking":
            await self._answer.start(key, "thinking")
            await self._answer.add(key, block.thinking or "")
            if block.signature:
                self._answer.sign(key, block.signature)
        elif kind == "tool_use":
            await self._answer.start(key, "tool_use", id=block.id, name=block.name)
        elif kind == "redacted_thinking":
            self._answer.redacted(block.data)

    async def _delta(self, index: int, delta: Any) -> None:
        key, kind, block = (self._number, index), delta.type, self.blocks[index]
        if kind == "thinking_delta":
            self._keep(index, "thinking", delta.thinking)
            await self._answer.add(key, delta.thinking)
        elif kind == "input_json_delta":
            self._keep(index, "input", delta.partial_json)
            if block["type"] == "tool_use":
                await self._answer.add(key, delta.partial_json)
        elif kind == "signature_delta":
            block["signature"] = block.get("signature", "") + delta.signature
            self._answer.sign(key, delta.signature)
        elif kind == "citations_delta":
            block.setdefault("citations", []).append(delta.citation.model_dump(exclude_none=True))
            self._answer.mark(key, {"citations": block["citations"]})

    def _keep(self, index: int, field: str, piece: str) -> None:
        known = self._pieces.get(index)
        if known is None:
            self._pieces[index] = (field, [piece])
        else:
            known[1].append(piece)

    def _close(self, index: int) -> None:
        field, pieces = self._pieces.pop(index, ("", []))
        whole = "".join(pieces)
        if field == "input":
            self.blocks[index][field] = _parsed(whole)
        elif field:
            self.blocks[index][field] += whole

    def _ended(self, event: Any) -> None:
        self.stop_reason = event.delta.stop_reason
        details = event.delta.stop_details
        if details is not None:
            self._answer.refusal = details.explanation or details.category
        self._count(event.usage)

    def _count(self, usage: Any) -> None:
        self._counts.update(usage.model_dump(exclude_none=True, warnings=False))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return {}  # `Answer.response` reports it
