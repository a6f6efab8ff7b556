"""Put tool calls together from what servers stream of them.

The protocol says: an index, an id and a name first, then pieces of the arguments. Servers leave out the index or the
id, send whole calls, several under one index, or arguments as an object; the result is the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from amplifier_core.llm_errors import InvalidToolCallError
from amplifier_kit.llm.answer import Answer

__all__ = ["StreamedCalls", "arguments_text", "new_call_id"]


@dataclass
class _Call:
    key: tuple[str, int]
    #: The id that the server gave, empty when it gave none yet.
    id: str = ""
    name: str = ""
    is_announced: bool = False
    pieces: list[str] = field(default_factory=list)


class StreamedCalls:
    """Feed an answer with tool calls that arrive in pieces."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._calls: list[_Call] = []
        self._by_index: dict[Any, _Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    async def feed(self, index: Any, call_id: str | None, name: str | None, arguments: Any) -> None:
        """Take one piece of a call, or a whole one; what is not given is None."""
        piece = arguments_text(arguments)
        call = self._known(index, call_id or "", name or "", piece)
        if call is None:
            call = _Call(("call", len(self._calls)))
            self._calls.append(call)
            self._by_index[index] = call
        call.id = call.id or call_id or ""
        call.name = call.name or name or ""
        if piece:
            call.pieces.append(piece)
        if call.is_announced:
            await self._answer.add(call.key, piece)
        elif call.name:
            await self._announce(call)

    def finish(self) -> None:
        """Check that every call has a name; raise InvalidToolCallError otherwise."""
        for call in self._calls:
            if not call.name:
                raise InvalidToolCallError(
                    "the model made a call that names no tool", raw_arguments="".join(call.pieces)
                )

    def _known(self, index: Any, call_id: str, name: str, piece: str) -> _Call | None:
        """Return the call that a piece belongs to, None when a new one begins."""
        if index is None and call_id:
            return next((call for call in self._calls if call.id == call_id), None)
        known = self._by_index.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        if known is None or (call_id and known.id and call_id != known.id):
            return None
        if call_id or not name or not known.name:
            return known
        # A name once more: some servers repeat it with every piece, others begin the next call with nothing else.
        return None if index is None or (piece and _is_whole(known)) else known

    async def _announce(self, call: _Call) -> None:
        call.is_announced = True
        await self._answer.hush()
        await self._answer.start(call.key, "tool_use", id=call.id or new_call_id(), name=call.name)
        for piece in call.pieces:
            await self._answer.add(call.key, piece)


def arguments_text(arguments: Any) -> str:
    """Return arguments as JSON text, however they came."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments, ensure_ascii=False)


def new_call_id() -> str:
    """Return an id for a call that came without one."""
    return f"call_{uuid4().hex[:24]}"


def _is_whole(call: _Call) -> bool:
    try:
        json.loads("".join(call.pieces))
    except ValueError:
        return False
    return True
