"""Read a response, streamed as events or whole, into an answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Hashable
from typing import Any, Final

from amplifier_kit.engine.usage import Counts
from amplifier_kit.llm.errors import ServiceError
from amplifier_kit.llm.prices import Tokens
from amplifier_kit.llm.response import Answer, FinishReason
from amplifier_kit.llm.responses.request import PATCH_CALL, PATCH_TOOL, Item, item_key, without_last_reasoning

logger = logging.getLogger(__name__)

#: Items that a message can hold; others come from tools that run at the service.
_OWN: Final = frozenset({"message", "reasoning", "function_call", PATCH_CALL})
#: Calls that a client has to answer, but that no tool here can.
_UNSUPPORTED: Final = ("shell_call", "local_shell_call", "computer_call", "custom_tool_call", "mcp_approval_request")
_TERMINAL: Final = ("response.completed", "response.incomplete", "response.failed")


class ResponseReader:
    """Read one response into an answer."""

    def __init__(self, answer: Answer, origin: str, number: int = 0) -> None:
        """Read the response with that number of an answer: a truncated one is followed by another."""
        self._answer = answer
        self._origin = origin
        self._number = number
        #: The open blocks of each item, the keys of items by their ids, and the blocks with any piece.
        self._open: dict[Hashable, list[Hashable]] = {}
        self._keys: dict[str, Hashable] = {}
        self._fed: set[Hashable] = set()
        #: The current part of the summary of each thinking block.
        self._paragraphs: dict[Hashable, Any] = {}
        self._calling: set[Hashable] = set()
        self._cut: list[Hashable] = []
        #: Reasoning that no item has followed yet.
        self._held: Item | None = None
        self.items: list[Item] = []
        self.reasoning_ids: list[str] = []
        self.calls = 0
        self.headers: dict[str, str] = {}
        self.refusal: str | None = None
        # The facts of the final response.
        self.is_complete = False
        self.response_id = ""
        self.status = "completed"
        self.incomplete_reason: str | None = None
        self._usage: Item | None = None

    # -- the result --

    @property
    def has_hosted(self) -> bool:
        return any(item["type"] not in _OWN for item in self.items)

    @property
    def finish_reason(self) -> FinishReason:
        if self.refusal is not None or self.incomplete_reason == "content_filter":
            return "content_filter"
        if self.status == "incomplete":
            return "length"
        return "tool_use" if self.calls else "stop"

    def tokens(self) -> Tokens | None:
        """Return the token counts of the response, None when the service sends none."""
        if self._usage is None:
            return None
        counts = Counts(self._usage)
        given, made = counts.part("input_tokens_details"), counts.part("output_tokens_details")
        searches = sum(
            item["type"] == "web_search_call" and (item.get("action") or {}).get("type") == "search"
            for item in self.items
        )
        return Tokens(
            prompt=counts.need("input_tokens"),
            output=counts.need("output_tokens"),
            cache_read=given.get("cached_tokens"),
            cache_write=given.get("cache_write_tokens") or None,
            reasoning=made.get("reasoning_tokens"),
            priced={"web_searches": searches} if searches else {},
        )

    def kept(self) -> list[Item]:
        """Return the items to continue from; an incomplete call cannot be used."""
        kept = [item for item in self.items if item.get("status") != "incomplete" or item["type"] == "message"]
        return without_last_reasoning(kept)

    @property
    def was_cut_inside(self) -> bool:
        """Whether an item other than text was truncated, which has to be repeated."""
        kept = len(self.kept())
        return bool(self._cut) or not kept or kept < len(self.items)

    async def drop_cut_calls(self) -> None:
        for key in self._cut:
            await self._answer.drop(key)
        self.calls -= len(self._cut)
        self._cut.clear()

    # -- reading --

    async def read(self, events: AsyncIterable[Any]) -> None:
        """Read all events; raises ServiceError for an error event."""
        answer, number, fed = self._answer, self._number, self._fed
        async for event in events:
            kind = event.get("type")
            if kind == "response.output_text.delta":
                key = (number, self._event_key(event), event.get("content_index") or 0)
                if key not in fed:
                    await self._begin(key, "text")
                await answer.add(key, event["delta"])
            elif kind == "response.function_call_arguments.delta":
                key = (number, self._event_key(event), 0)
                fed.add(key)
                await answer.add(key, event["delta"])
            elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
                await self._think(event, kind)
            elif kind == "response.output_item.added":
                await self._added(event.get("output_index"), event["item"])
            elif kind == "response.output_item.done":
                await self._done(event.get("output_index"), event["item"])
            elif kind == "response.created":
                answer.model = event["response"].get("model") or None
            elif kind in _TERMINAL:
                await self.end(event["response"])
            elif kind == "error":
                raise _failure(event)

    async def end(self, response: Item) -> None:
        """Read the final response, with items that were not streamed; raises ServiceError for a failed one."""
        error, status = response.get("error"), response.get("status")
        if status == "failed" or error is not None:
            facts = error if isinstance(error, dict) else {"message": error}
            raise _failure({**facts, "code": facts.get("code") or "server_error"})
        if not self.items:
            for index, item in enumerate(response.get("output") or ()):
                await self._done(index, item)
        # Open blocks end; a truncated call stays open, since it may be dropped.
        for key in [key for keys in self._open.values() for key in keys if key not in self._cut]:
            if status == "incomplete" and key in self._calling:
                self._cut.append(key)
            else:
                await self._answer.end(key)
        self._answer.model = response.get("model") or self._answer.model
        self.is_complete = True
        self.response_id = str(response.get("id") or "")
        self.status = str(status or "completed")
        self._usage = response.get("usage")
        if status == "incomplete":
            self.incomplete_reason = (response.get("incomplete_details") or {}).get("reason")

    def _event_key(self, event: Item) -> Hashable:
        """Return the key of an item: its index, or its id for servers that send no index."""
        index = event.get("output_index")
        if index is not None:
            return int(index)
        name = str(event.get("item_id"))
        return self._keys.get(name, name)

    def _item_key(self, index: int | None, item: Item) -> Hashable:
        ids = [name for name in (item.get("id"), item.get("call_id")) if name]
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

    async def _think(self, event: Item, kind: str) -> None:
        key = (self._number, self._event_key(event), 0)
        if key not in self._fed:
            await self._begin(key, "thinking")
        # The parts of a summary are paragraphs.
        part = event.get("summary_index" if kind.startswith("response.reasoning_summary") else "content_index")
        if self._paragraphs.setdefault(key, part) != part:
            self._paragraphs[key] = part
            await self._answer.add(key, "\n\n")
        await self._answer.add(key, event["delta"])

    async def _added(self, index: int | None, item: Item) -> None:
        self._keep_reasoning()
        key = (self._number, self._item_key(index, item), 0)
        if item["type"] == "function_call":
            await self._begin(key, "tool_use", id=item.get("call_id") or "", name=item.get("name") or "")
        elif item["type"] == "reasoning":
            await self._begin(key, "thinking")

    async def _done(self, index: int | None, item: Item) -> None:
        kept, kind = _without_nulls(item), item["type"]
        place = self._item_key(index, item)
        if self._held is not None and self._held.get("id") != kept.get("id"):
            self._keep_reasoning()
        self.items.append(kept)
        if kind == "message":
            await self._read_message(place, item)
        elif kind == "reasoning":
            await self._read_reasoning(place, kept)
        elif kind == "function_call":
            await self._read_call(place, item)
        elif kind == PATCH_CALL:
            self.calls += 1
            facts = {"type": PATCH_CALL, "id": item.get("id")}
            operation = dict(kept.get("operation") or {})
            call_id = item.get("call_id") or ""
            await self._answer.call(call_id, PATCH_TOOL, operation, {item_key(self._origin): facts})
        elif kind in _UNSUPPORTED:
            logger.warning("the model made a %s, which is not supported here; it is ignored", kind)

    async def _read_message(self, place: Hashable, item: Item) -> None:
        facts = {"id": item.get("id"), "status": item.get("status") or "completed"}
        if item.get("phase"):
            facts["phase"] = item["phase"]
        for number, part in enumerate(item.get("content") or ()):
            if part["type"] == "refusal":
                self.refusal = part.get("refusal") or ""
                continue
            key, text = (self._number, place, number), part.get("text")
            if part["type"] != "output_text" or (key not in self._fed and not text):
                continue
            if key not in self._fed:
                await self._begin(key, "text")
                await self._answer.add(key, text)
            cited = [_without_nulls(note) for note in part.get("annotations") or ()]
            self._answer.mark(key, {item_key(self._origin): facts} | ({"citations": cited} if cited else {}))
        for block in self._open.pop(place, []):
            await self._answer.end(block)

    async def _read_reasoning(self, place: Hashable, kept: Item) -> None:
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

    def _keep_reasoning(self) -> None:
        """Keep reasoning now that an item follows it: alone it would be refused."""
        if self._held is not None:
            self._answer.sign_thinking(content=[self._held])
            self.reasoning_ids.append(str(self._held.get("id", "")))
            self._held = None

    async def _read_call(self, place: Hashable, item: Item) -> None:
        key = (self._number, place, 0)
        if place not in self._open:
            await self._begin(key, "tool_use", id=item.get("call_id") or "", name=item.get("name") or "")
        if key not in self._fed:
            await self._answer.add(key, item.get("arguments") or "")
        if item.get("id"):
            self._answer.mark(key, {item_key(self._origin): {"id": item["id"]}})
        if item.get("status") == "incomplete":
            self._cut.append(key)
        else:
            self._open.pop(place)
            await self._answer.end(key)


def _failure(facts: Item) -> ServiceError:
    message = facts.get("message") or "the service gives no reason"
    # The `type` of an event is its own kind, and no error code: `to_llm_error` ignores "error".
    return ServiceError({"code": facts.get("code"), "type": facts.get("type"), "message": str(message)})


def _without_nulls(value: Any) -> Any:
    """Return JSON without null values, which the service sends for all missing fields."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
