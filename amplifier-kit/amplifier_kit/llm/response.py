"""Collect an answer piece by piece, emit its stream events, and build the response.

A provider feeds one `Answer` per attempt with the pieces that its service streams, or with whole blocks; the events and
the response are the same for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Hashable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from amplifier_core.content_models import TextContent, ThinkingContent, ToolCallContent
from amplifier_core.llm_errors import ContentFilterError, InvalidToolCallError, StreamError
from amplifier_core.message_models import (
    ChatResponse,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
)
from amplifier_kit.awaitable import DONE
from amplifier_kit.engine.stream_events import BlockType, StreamEmitter
from amplifier_kit.llm.prices import Tokens

#: Why an answer ended, in the same words for all services.
FinishReason = Literal["stop", "tool_use", "length", "content_filter"]

_SAYING: Final = "saying"


class LLMResponse(ChatResponse):
    """A response with the extras of published providers: blocks as they were streamed, and plain text."""

    content_blocks: list[Any] | None = None
    text: str | None = None


@dataclass(slots=True, eq=False)
class _Block:
    """One block while it arrives; a tool call has an `id` and a `name`."""

    kind: BlockType
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    #: The number of the block in stream events, None until it is announced.
    index: int | None = None
    signature: str | None = None
    content: list[Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    #: The arguments of a call that arrived as an object instead of text.
    arguments: dict[str, Any] | None = None


class Answer:
    """Collect one attempt at an answer.

    A text or thinking block is announced with its first piece, a tool call at once; an empty block is never announced
    and never kept. Blocks are numbered in the order in which they are announced.
    """

    def __init__(self, emitter: StreamEmitter, origin: str) -> None:
        """Emit events through `emitter`; `origin` is the wire that can read this answer's signatures."""
        self._emitter = emitter
        self._origin = origin
        self._open: dict[Hashable, _Block] = {}
        self._order: list[_Block | RedactedThinkingBlock] = []
        self._announced = 0
        #: The block that `say` adds to.
        self._saying: _Block | None = None
        self.finish_reason: FinishReason | None = None
        #: Why the service refused, if it gives a reason.
        self.refusal: str | None = None
        self.tokens: Tokens | None = None
        #: The model that answered, if the service names it.
        self.model: str | None = None
        #: Facts to keep on the message for the service, under keys with its prefix.
        self.metadata: dict[str, Any] = {}
        #: The headers of the response: rate limits are read from them.
        self.headers: dict[str, str] = {}

    @property
    def is_finished(self) -> bool:
        """Whether the service reported the end of the answer."""
        return self.finish_reason is not None

    @property
    def has_begun(self) -> bool:
        """Whether any part of the answer has arrived."""
        return bool(self._order) or self.is_finished or self.tokens is not None

    # -- called by the provider while the answer arrives --

    async def start(self, key: Hashable, kind: BlockType, *, id: str = "", name: str = "") -> None:
        """Open a block; `key` is the service's name for it. A tool call has an `id` and a `name`."""
        block = _Block(kind, id, name)
        self._open[key] = block
        self._order.append(block)
        if kind == "tool_use":
            await self._announce(block)

    def add(self, key: Hashable, piece: str) -> Awaitable[object]:
        """Add a piece to an open block: text, thinking, or the arguments of a call as JSON text; await the result."""
        return self._add(self._open[key], piece) if piece else DONE

    def _add(self, block: _Block, piece: str) -> Awaitable[object]:
        # Every token passes here: no coroutine but that of the hooks.
        block.pieces.append(piece)
        return self._begin(block, piece) if block.index is None else self._emitter.block_delta(block.index, piece)

    async def _begin(self, block: _Block, piece: str) -> None:
        await self._announce(block)
        assert block.index is not None
        await self._emitter.block_delta(block.index, piece)

    async def end(self, key: Hashable) -> None:
        """Close a block; one that is not open is left alone."""
        block = self._open.pop(key, None)
        if block is not None and block.index is not None:
            await self._emitter.block_end(block.index)

    async def drop(self, key: Hashable) -> None:
        """Drop an open block, as a truncated call that is repeated: it ends, and the response does not include it."""
        block = self._open.get(key)
        if block is not None:
            self._order.remove(block)
            await self.end(key)

    def say(self, kind: Literal["text", "thinking"], piece: str) -> Awaitable[object]:
        """Add a piece of a service that streams without blocks: a block lasts until another kind begins; await it."""
        if not piece:
            return DONE
        block = self._saying
        return self._add(block, piece) if block is not None and block.kind == kind else self._turn_to(kind, piece)

    async def _turn_to(self, kind: Literal["text", "thinking"], piece: str) -> None:
        await self.end_said()
        await self.start(_SAYING, kind)
        self._saying = self._open[_SAYING]
        await self._add(self._saying, piece)

    async def end_said(self) -> None:
        if self._saying is not None:
            self._saying = None
            await self.end(_SAYING)

    async def call(
        self, id: str, name: str, arguments: dict[str, Any] | str, extra: dict[str, Any] | None = None
    ) -> None:
        """Add a whole tool call; `extra` is kept on its block for the service, under keys such as `gemini:x`."""
        await self.end_said()
        key = ("call", len(self._order))
        await self.start(key, "tool_use", id=id, name=name)
        block = self._open[key]
        block.extra.update(extra or {})
        if isinstance(arguments, dict):
            block.arguments = arguments
            if arguments:
                assert block.index is not None
                await self._emitter.block_delta(block.index, json.dumps(arguments, ensure_ascii=False))
        else:
            await self.add(key, arguments)
        await self.end(key)

    def mark(self, key: Hashable, extra: dict[str, Any]) -> None:
        """Keep facts on an open block for the service, under keys such as `gemini:thought_signature`."""
        self._open[key].extra.update(extra)

    def sign(self, key: Hashable, signature: str) -> None:
        """Add to the signature of an open thinking block."""
        block = self._open[key]
        block.signature = (block.signature or "") + signature

    def sign_thinking(self, signature: str | None = None, content: list[Any] | None = None) -> None:
        """Sign the last thinking block; without one, add an empty one to keep the signature."""
        last = next((b for b in reversed(self._order) if isinstance(b, _Block) and b.kind == "thinking"), None)
        if last is None:
            last = _Block("thinking")
            self._order.append(last)
        last.signature, last.content = signature or last.signature, content or last.content

    def redacted(self, data: str) -> None:
        """Keep a block of reasoning that the service encrypted."""
        self._order.append(RedactedThinkingBlock.model_validate({"data": data, "origin": self._origin}))

    async def finish(self, reason: FinishReason) -> None:
        """Record that the service reported the end of the answer, and end all open blocks."""
        self.finish_reason = reason
        self._saying = None
        for key in list(self._open):
            await self.end(key)

    # -- used by LLMProvider --

    async def abort(self, error: BaseException) -> None:
        self._open.clear()
        await self._emitter.abort(error)

    def response(self) -> LLMResponse:
        """Return the response; raises StreamError when the service never reported the end of the answer.

        Raises ContentFilterError when the service refused, and InvalidToolCallError for a call whose arguments are not
        a JSON object.
        """
        if self.finish_reason is None:
            raise StreamError("the answer ended before it was complete: the service did not report its end")
        if self.finish_reason == "content_filter":
            raise ContentFilterError(f"the service refused to answer: {self.refusal or 'it gives no reason'}")
        content: list[Any] = []
        blocks: list[Any] = []
        calls: list[ToolCall] = []
        for block in self._order:
            if isinstance(block, RedactedThinkingBlock):
                content.append(block)
                continue
            said = "".join(block.pieces)
            if block.kind == "tool_use":
                arguments = self._arguments(block, said)
                fields = {**block.extra, "id": block.id, "name": block.name, "input": arguments}
                content.append(ToolCallBlock.model_validate(fields))
                # Copies, since tools and hooks may change the ones they get.
                blocks.append(ToolCallContent(id=block.id, name=block.name, arguments=deepcopy(arguments)))
                calls.append(ToolCall(id=block.id, name=block.name, arguments=deepcopy(arguments)))
            elif block.kind == "text" and said:
                content.append(TextBlock.model_validate({**block.extra, "text": said}))
                blocks.append(TextContent(text=said))
            elif said or block.signature is not None or block.content is not None:
                signed = {"signature": block.signature, "content": block.content, "origin": self._origin}
                content.append(ThinkingBlock.model_validate({**block.extra, "thinking": said, **signed}))
                blocks += [ThinkingContent(text=said)] if said else []
        text = "".join(block.text for block in content if block.type == "text")
        return LLMResponse(
            content=content,
            tool_calls=calls or None,
            finish_reason=self.finish_reason,
            metadata=dict(self.metadata) or None,
            content_blocks=blocks,
            text=text or None,
        )

    def _arguments(self, block: _Block, raw: str) -> dict[str, Any]:
        if block.arguments is not None or not raw.strip():
            return block.arguments or {}
        try:
            arguments = json.loads(raw)
        except ValueError as error:
            fault = f"its arguments are not valid JSON: {error}"
        else:
            if isinstance(arguments, dict):
                return arguments
            fault = f"its arguments must be an object, got {type(arguments).__name__}"
        cut = self.finish_reason == "length"
        if cut:
            fault = "the answer reached its token limit inside the call; raise max_tokens"
        raise InvalidToolCallError(
            f"the model's call to {block.name!r} cannot be used: {fault}",
            tool_name=block.name,
            raw_arguments=raw,
            retryable=not cut,
        )

    async def _announce(self, block: _Block) -> None:
        block.index = self._announced
        self._announced += 1
        await self._emitter.block_start(block.index, block.kind, block.name or None)
