"""Emit an answer while it arrives: the `llm:stream_*` events that every streaming provider owes its listeners."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable
from typing import Any, Final, Literal

from amplifier_kit.awaitable import DONE

BlockType = Literal["text", "thinking", "tool_use"]

_START: Final = "llm:stream_block_start"
_DELTA: Final = "llm:stream_block_delta"
_END: Final = "llm:stream_block_end"
_ABORTED: Final = "llm:stream_aborted"

#: The events that a streaming provider contributes on `observability.events`.
STREAM_EVENTS: Final = (_START, _DELTA, _END, _ABORTED)


class StreamEmitter:
    """Emit the blocks of one attempt to get an answer; a new attempt needs a new emitter.

    Every event carries the `request_id` of the attempt. The pieces of a block are numbered from 0; empty pieces are not
    sent.
    """

    def __init__(self, hooks: Any, request_id: str | None = None, *, enabled: bool = True) -> None:
        """Emit through `hooks`; with `enabled=False`, or without hooks, nothing is emitted."""
        self.request_id: Final = request_id or str(uuid.uuid4())
        self._hooks = hooks if enabled else None
        #: The type of each open block, and the number of its next piece.
        self._open: dict[int, tuple[BlockType, int]] = {}
        self._has_emitted = False

    async def block_start(self, index: int, block_type: BlockType, name: str | None = None) -> None:
        """Open a block; `name` is the tool's, for a tool call."""
        self._open[index] = (block_type, 0)
        named = {"name": name} if name is not None else {}
        await self._emit(_START, {"block_index": index, "block_type": block_type, **named})

    def block_delta(self, index: int, text: str) -> Awaitable[object]:
        """Add a piece to an open block; the caller awaits the result. Raises KeyError when the block is not open."""
        # Called for every token: returning the hooks' coroutine saves one of our own.
        block_type, sequence = self._open[index]
        if not text or self._hooks is None:
            return DONE
        self._open[index] = (block_type, sequence + 1)
        piece = {
            "request_id": self.request_id,
            "block_index": index,
            "block_type": block_type,
            "sequence": sequence,
            "text": text,
        }
        emission: Awaitable[object] = self._hooks.emit(_DELTA, piece)
        return emission

    async def block_end(self, index: int) -> None:
        """Close an open block; raises KeyError when it is not open."""
        block_type, _ = self._open.pop(index)
        await self._emit(_END, {"block_index": index, "block_type": block_type})

    async def abort(self, error: BaseException) -> None:
        """Report once that the rest will not come; nothing when nothing was emitted."""
        self._open.clear()
        if self._has_emitted:
            await self._emit(_ABORTED, {"error": {"type": type(error).__name__, "msg": str(error)}})
            self._has_emitted = False

    async def _emit(self, event: str, data: dict[str, Any]) -> None:
        if self._hooks is not None:
            self._has_emitted = True
            await self._hooks.emit(event, {"request_id": self.request_id, **data})
