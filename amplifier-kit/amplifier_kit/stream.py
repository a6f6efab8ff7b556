"""Tell hooks about an answer while it arrives: the `llm:stream_*` events every provider owes its listeners."""

from __future__ import annotations

import uuid
from typing import Any, Literal

BlockType = Literal["text", "thinking", "tool_use"]

STREAM_EVENTS = (
    "llm:stream_block_start",
    "llm:stream_block_delta",
    "llm:stream_block_end",
    "llm:stream_aborted",
)


class StreamEmitter:
    """Emit the blocks of one attempt in order; one request id per attempt, sequence numbers per block."""

    def __init__(self, hooks: Any, request_id: str | None = None, *, enabled: bool = True) -> None:
        """Emit through `hooks`; with `enabled=False`, or without hooks, every call does nothing."""
        self.request_id = request_id or str(uuid.uuid4())
        self._hooks = hooks if enabled else None
        self._open: dict[int, tuple[BlockType, int]] = {}
        self._emitted = False

    async def block_start(self, index: int, block_type: BlockType, name: str | None = None) -> None:
        """Open a block; a tool's block carries the tool's name."""
        self._open[index] = (block_type, 0)
        named = {"name": name} if name is not None else {}
        await self._emit("llm:stream_block_start", {"block_index": index, "block_type": block_type, **named})

    async def block_delta(self, index: int, text: str) -> None:
        """Add text to an open block; nothing is not sent."""
        if not text:
            return
        block_type, sequence = self._open[index]
        self._open[index] = (block_type, sequence + 1)
        await self._emit(
            "llm:stream_block_delta",
            {"block_index": index, "block_type": block_type, "sequence": sequence, "text": text},
        )

    async def block_end(self, index: int) -> None:
        """Close an open block."""
        block_type, _ = self._open.pop(index)
        await self._emit("llm:stream_block_end", {"block_index": index, "block_type": block_type})

    async def aborted(self, error: BaseException) -> None:
        """Say that the rest will not come; silent when nothing had been emitted."""
        if self._emitted:
            await self._emit("llm:stream_aborted", {"error": {"type": type(error).__name__, "msg": str(error)}})

    async def _emit(self, event: str, data: dict[str, Any]) -> None:
        if self._hooks is not None:
            self._emitted = True
            await self._hooks.emit(event, {"request_id": self.request_id, **data})
