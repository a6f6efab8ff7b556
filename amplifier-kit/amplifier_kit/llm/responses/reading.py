"""Feed an answer from the events of the Responses API, or from a response that came whole."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Hashable
from typing import Any, Final

from amplifier_kit.llm.answer import Answer, FinishReason
from amplifier_kit.llm.responses.items import PATCH_CALL, PATCH_TOOL, Item, origin_key
from amplifier_kit.llm.usage import Tokens

__all__ = ["Reading", "ResponseFailedError"]

logger = logging.getLogger(__name__)

#: Items that the common form of a message can hold; others come from tools that run at the service's.
_OWN: Final = frozenset({"message", "reasoning", "function_call", PATCH_CALL})
#: Calls that somebody here would have to answer, but that no tool of ours can.
_FOR_US: Final = ("shell_call", "local_shell_call", "computer_call", "custom_tool_call", "mcp_approval_request")
_TERMINAL: Final = ("response.completed", "response.incomplete", "response.failed")


class ResponseFailedError(Exception):
    """Report an error that came inside of a response; `body` is in the form of the service's refusals."""

    def __init__(self, code: str | None, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        self.body = {"error": {"code": code, "type": kind, "message": message}}


class Reading:
    """Read one response into an answer."""

    def __init__(self, answer: Answer, origin: str, number: int = 0) -> None:
        """Read the response of that number of one answer: one that was cut is followed by another."""
        self._answer = answer
        self._origin = origin
        self._number = number
        #: The open blocks of each item, the items by the ids that they may go by, and the blocks that got any piece.
        self._open: dict[Hashable, list[Hashable]] = {}
        self._keys: dict[str, Hashable] = {}
        self._fed: set[Hashable] = set()
        #: The part of a summary that a thinking block is at.
        self._paragraphs: dict[Hashable, Any] = {}
        self._calling: set[Hashable] = set()
        self._cut: list[Hashable] = []
        #: Reasoning that nothing has followed yet.
        self._held: Item | None = None
        self.items: list[Item] = []
        self.reasoning_ids: list[str] = []
        self.calls = 0
        self.headers: dict[str, str] = {}
        self.refusal: str | None = None
        #: The response as it ended, None until the service said that it did.
        self.response: Any = None

    # -- what came of it --

    @property
    def status(self) -> str:
        """Return the status of the response."""
        return str(self.response.status or "completed")

    @property
    def incomplete_reason(self) -> str | None:
        """Return why the response is not complete."""
        details = self.response.incomplete_details if self.status == "incomplete" else None
        return str(details.reason) if details is not None and details.reason else None

    @property
    def has_hosted(self) -> bool:
        """Tell whether tools ran at the service's."""
        return any(item["type"] not in _OWN for item in self.items)

    @property
    def finish_reason(self) -> FinishReason:
        """Return why the response ended, in the common word."""
        if self.refusal is not None or self.incomplete_reason == "content_filter":
            return "content_filter"
        if self.status == "incomplete":
            return "length"
        return "tool_use" if self.calls else "stop"

    def tokens(self) -> Tokens | None:
        """Return what the response took, None when the service does not say."""
        usage = self.response.usage
        if usage is None:
            return None
        given, made = usage.input_tokens_details, usage.output_tokens_details
        searches = sum(
            item["type"] == "web_search_call" and (item.get("action") or {}).get("type") == "search"
            for item in self.items
        )
        return Tokens(
            prompt=usage.input_tokens or 0,
            output=usage.output_tokens or 0,
            cache_read=getattr(given, "cached_tokens", None),
            cache_write=getattr(given, "cache_write_tokens", None) or None,
            reasoning=getattr(made, "reasoning_tokens", None),
            priced={"web_searches": searches} if searches else {},
        )

    def kept(self) -> list[Item]:
        """Return the items that can be gone on from.

        A call without its end cannot be used, and reasoning is refused without what it led to.
        """
        kept = [item for item in self.items if item.get("status") != "incomplete" or item["type"] == "message"]
        while kept and kept[-1]["type"] == "reasoning":
            kept.pop()
        return kept

    @property
    def was_cut_inside(self) -> bool:
        """Tell whether something was cut that has to be made anew: anything but text."""
        kept = len(self.kept())
        return bool(self._cut) or not kept or kept < len(self.items)

    async def take_back_cut(self) -> None:
        """Take back calls without an end."""
        for key in self._cut:
            await self._answer.drop(key)
        self.calls -= len(self._cut)
        self._cut.clear()

    # -- reading --

    async def read(self, events: AsyncIterable[Any]) -> None:
        """Read all events; raises ResponseFailedError for an error among them."""
        answer, number = self._answer, self._number
        async for event in events:
            kind = event.type
            if kind == "response.output_text.delta":
                key = (number, self._key(event), event.content_index or 0)
                if key not in self._fed:
                    await self._begin(key, "text")
                await answer.add(key, event.delta)
            elif kind == "response.function_call_arguments.delta":
                key = (number, self._key(event), 0)
                self._fed.add(key)
                await answer.add(key, event.delta)
            elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
                await self._think(event, kind)
            elif kind == "response.output_item.added":
                await self._added(event.output_index, event.item)
            elif kind == "response.output_item.done":
                await self._done(event.output_index, event.item)
            elif kind == "response.created":
                self._answer.model = event.response.model or None
            elif kind in _TERMINAL:
                await self.take(event.response)
            elif kind == "error":
                raise ResponseFailedError(event.code, event.message or "the service gives no reason")

    async def take(self, response: Any) -> None:
        """Take the response as it ended; what was not streamed is read from it."""
        error = response.error
        if response.status == "failed" or error is not None:
            code, kind = getattr(error, "code", None), getattr(error, "type", None)
            message = getattr(error, "message", None) or "the service gives no reason"
            raise ResponseFailedError(code or "server_error", message, kind)
        if not self.items:
            for index, item in enumerate(response.output or ()):
                await self._done(index, item)
        # What the service left open ends; a call that it cut stays open, since it may be taken back.
        is_cut = response.status == "incomplete"
        for key in [key for keys in self._open.values() for key in keys if key not in self._cut]:
            if is_cut and key in self._calling:
                self._cut.append(key)
            else:
                await self._answer.end(key)
        self.response = response
        self._answer.model = response.model or self._answer.model

    def _key(self, event: Any) -> Hashable:
        """Return what an item goes by: its place, or its id with servers that do not tell places."""
        if event.output_index is not None:
            return int(event.output_index)
        return self._keys.get(event.item_id, str(event.item_id))

    def _known(self, index: int | None, item: Any) -> Hashable:
        ids = [name for name in (getattr(item, "id", None), getattr(item, "call_id", None)) if name]
        key = int(index) if index is not None else next((self._keys[n] for n in ids if n in self._keys), None)
        if key is None:
            key = ids[0] if ids else len(self.items)
        self._keys.update((name, key) for name in ids)
        return key

    async def _begin(self, key: tuple[int, Hashable, int], kind: Any, **call: str) -> None:
        await self._answer.start(key, kind, **call)
        self._open.setdefault(key[1], []).append(key)
        if kind == "tool_use":
            self.calls += 1
            self._calling.add(key)
        else:
            self._fed.add(key)

    async def _think(self, event: Any, kind: str) -> None:
        key = (self._number, self._key(event), 0)
        if key not in self._fed:
            await self._begin(key, "thinking")
        # The parts of a summary are paragraphs.
        part = event.summary_index if kind.startswith("response.reasoning_summary") else event.content_index
        if self._paragraphs.setdefault(key, part) != part:
            self._paragraphs[key] = part
            await self._answer.add(key, "\n\n")
        await self._answer.add(key, event.delta)

    async def _added(self, index: int | None, item: Any) -> None:
        self._let_go()
        key = (self._number, self._known(index, item), 0)
        if item.type == "function_call":
            await self._begin(key, "tool_use", id=item.call_id, name=item.name)
        elif item.type == "reasoning":
            await self._begin(key, "thinking")

    async def _done(self, index: int | None, item: Any) -> None:
        kept = item.to_dict(mode="json", exclude_none=True, warnings=False)
        place = self._known(index, item)
        if self._held is not None and self._held.get("id") != kept.get("id"):
            self._let_go()
        self.items.append(kept)
        if item.type == "message":
            await self._message(place, item)
        elif item.type == "reasoning":
            await self._reasoned(place, kept)
        elif item.type == "function_call":
            await self._called(place, item)
        elif item.type == PATCH_CALL:
            self.calls += 1
            facts = {"type": PATCH_CALL, "id": item.id}
            operation = dict(kept.get("operation") or {})
            await self._answer.call(item.call_id, PATCH_TOOL, operation, {origin_key(self._origin): facts})
        elif item.type in _FOR_US:
            logger.warning("the model made a %s, which nobody here can answer; it is left out", item.type)

    async def _message(self, place: Hashable, item: Any) -> None:
        facts = {"id": item.id, "status": item.status or "completed"}
        if getattr(item, "phase", None):
            facts["phase"] = item.phase
        for number, part in enumerate(item.content or ()):
            if part.type == "refusal":
                self.refusal = part.refusal or ""
                continue
            key = (self._number, place, number)
            if part.type != "output_text" or (key not in self._fed and not part.text):
                continue
            if key not in self._fed:
                await self._begin(key, "text")
                await self._answer.add(key, part.text)
            cited = [note.to_dict(mode="json", exclude_none=True, warnings=False) for note in part.annotations or ()]
            self._answer.mark(key, {origin_key(self._origin): facts} | ({"citations": cited} if cited else {}))
        for block in self._open.pop(place, []):
            await self._answer.end(block)

    async def _reasoned(self, place: Hashable, kept: Item) -> None:
        key = (self._number, place, 0)
        if place not in self._open:
            await self._begin(key, "thinking")
        if key not in self._paragraphs:
            texts = [part.get("text", "") for part in kept.get("summary") or kept.get("content") or ()]
            await self._answer.add(key, "\n\n".join(texts))
        await self._answer.end(key)
        self._open.pop(place, None)
        if kept.get("encrypted_content") or kept.get("content"):
            self._held = {name: value for name, value in kept.items() if name != "status"}

    def _let_go(self) -> None:
        """Keep reasoning for good, now that something follows it: alone it would be refused."""
        if self._held is not None:
            self._answer.sign_said(content=[self._held])
            self.reasoning_ids.append(str(self._held.get("id", "")))
            self._held = None

    async def _called(self, place: Hashable, item: Any) -> None:
        key = (self._number, place, 0)
        if place not in self._open:
            await self._begin(key, "tool_use", id=item.call_id, name=item.name)
        if key not in self._fed:
            await self._answer.add(key, item.arguments or "")
        if item.id:
            self._answer.mark(key, {origin_key(self._origin): {"id": item.id}})
        if item.status == "incomplete":
            self._cut.append(key)
        else:
            self._open.pop(place)
            await self._answer.end(key)
