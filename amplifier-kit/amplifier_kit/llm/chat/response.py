"""Read a chat completion, streamed or whole, into an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from uuid import uuid4

from amplifier_core.llm_errors import InvalidToolCallError
from amplifier_kit.engine.usage import Counts
from amplifier_kit.llm.chat.request import REASONING_FIELD, REASONING_FIELDS, ChatConfig
from amplifier_kit.llm.client import plain_stream
from amplifier_kit.llm.errors import ServiceError
from amplifier_kit.llm.prices import Tokens
from amplifier_kit.llm.response import Answer, FinishReason

_REASONS: Final[dict[str, FinishReason]] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
#: Reasons of servers that gave up: the answer is incomplete.
_BROKEN: Final = frozenset({"error", "abort", "aborted", "cancelled"})
#: Fields of signed details that are streamed in pieces.
_PIECES: Final = ("text", "summary", "data")
#: Fields of a delta in the protocol; thinking is in the fields that servers add.
_KNOWN: Final = frozenset({"role", "content", "refusal", "tool_calls", "function_call"})


async def read_chat(
    client: Any, payload: dict[str, Any], answer: Answer, settings: ChatConfig, prefix: str = "chat"
) -> None:
    """Send the payload of `chat_payload` through an `AsyncOpenAI` client, and feed the answer.

    The answer is finished only when the server gave a finish reason. `prefix` is that of the metadata's keys. Raises
    exceptions of the SDK, and ServiceError for an error in place of an answer.
    """
    reader = ChatReader(answer, think_tags=settings.think_tags, prefix=prefix)
    if not settings.use_streaming:
        raw = await client.chat.completions.with_raw_response.create(**payload, stream=False)
        answer.headers = dict(raw.headers)
        await reader.whole(json.loads(raw.text))
        return
    usage = {"stream_options": {"include_usage": True}} if settings.include_usage else {}
    async with await plain_stream(client.chat.completions, **payload, **usage) as stream:
        answer.headers = dict(stream.response.headers)
        if answer.headers.get("content-type", "").startswith("application/json"):
            # A server that does not stream, or not for this request, sends a whole completion.
            await reader.whole(json.loads(await stream.response.aread()))
            return
        async for chunk in stream:
            await reader.chunk(chunk)
    await reader.finish()


class ChatReader:
    """Read the chunks of one streamed completion, or a whole one, into an answer."""

    def __init__(self, answer: Answer, *, think_tags: bool = True, prefix: str = "chat") -> None:
        self._answer = answer
        self._prefix = prefix
        self._tags = ThinkTags(enabled=think_tags)
        self._calls = StreamedCalls(answer)
        self._details: dict[Any, dict[str, Any]] = {}
        self._refusal: list[str] = []
        self._reason: str | None = None

    async def chunk(self, chunk: dict[str, Any]) -> None:
        """Read one chunk, as JSON; fields that the protocol requires may be missing."""
        usage, choices = chunk.get("usage"), chunk.get("choices")
        if usage:
            self._count(usage)
        if not choices:
            return
        choice = choices[0]
        reason = choice.get("finish_reason")
        if reason:
            self._end(reason, chunk.get("id"), chunk.get("model"), choice.get("error"))
        delta = choice.get("delta")
        if not delta:
            return
        if not _KNOWN.issuperset(delta):
            await self._think(delta)
        content = delta.get("content")
        if content:
            if type(content) is str and not self._tags.is_splitting:  # as nearly every token
                await self._answer.say("text", content)
            else:
                await self._speak(content)
        if delta.get("refusal"):
            self._refusal.append(delta["refusal"])
        for piece in delta.get("tool_calls") or ():
            function = piece.get("function") or {}
            await self._calls.feed(piece.get("index"), piece.get("id"), function.get("name"), function.get("arguments"))
        called = delta.get("function_call")
        if called is not None:  # the form before parallel calls
            await self._calls.feed("function", None, called.get("name"), called.get("arguments"))

    async def whole(self, completion: Any) -> None:
        """Read a whole completion, as JSON, and finish the answer."""
        if not isinstance(completion, dict) or completion.get("error"):
            raise _served_error(completion.get("error") if isinstance(completion, dict) else completion)
        choice = (completion.get("choices") or [{}])[0]
        message = choice.get("message") or {}
        calls = [{**call, "index": index} for index, call in enumerate(message.get("tool_calls") or ())]
        await self.chunk({**completion, "choices": [{**choice, "delta": {**message, "tool_calls": calls}}]})
        await self.finish()

    async def finish(self) -> None:
        """Finish the answer if the server gave a finish reason."""
        for kind, text in self._tags.flush():
            await self._answer.say(kind, text)
        if self._reason is None or self._reason in _BROKEN:
            return  # incomplete, which `Answer.response` reports
        self._calls.finish()
        if self._details:
            self._answer.sign_thinking(content=list(self._details.values()))
        reason: FinishReason = _REASONS.get(self._reason, "stop")
        if self._refusal:
            self._answer.refusal, reason = "".join(self._refusal), "content_filter"
        if reason == "stop" and self._calls:
            reason = "tool_use"
        await self._answer.finish(reason)

    async def _speak(self, content: Any) -> None:
        if isinstance(content, str):
            for kind, text in self._tags.feed(content):
                await self._answer.say(kind, text)
            return
        for part in content:  # servers that stream parts instead of text
            part_type = part.get("type") if isinstance(part, dict) else None
            if part_type == "text":
                await self._answer.say("text", part.get("text") or "")
            elif part_type == "thinking":
                thoughts = part.get("thinking")
                texts = thoughts if isinstance(thoughts, list) else [{"text": thoughts}]
                await self._answer.say("thinking", "".join(str(text.get("text") or "") for text in texts))

    async def _think(self, extra: dict[str, Any]) -> None:
        """Read thinking from any of the fields that servers use."""
        field = next((name for name in REASONING_FIELDS if isinstance(extra.get(name), str) and extra[name]), None)
        if field is not None:
            self._answer.metadata[REASONING_FIELD] = field
            await self._answer.say("thinking", extra[field])
        details = extra.get("reasoning_details")
        for number, item in enumerate(details if isinstance(details, list) else ()):
            if not isinstance(item, dict):
                continue
            known = self._details.setdefault(item.get("index", number), {})
            for name, value in item.items():
                if value is not None:
                    is_piece = name in _PIECES and isinstance(value, str)
                    known[name] = known.get(name, "") + value if is_piece else value
            if REASONING_FIELD not in self._answer.metadata:
                await self._answer.say("thinking", item.get("text") or item.get("summary") or "")

    def _end(self, reason: str, response_id: str | None, model: str | None, error: Any) -> None:
        if error:
            raise _served_error(error)
        self._reason = reason
        self._answer.model = model or None
        self._answer.metadata[f"{self._prefix}:finish_reason"] = reason
        if response_id:
            self._answer.metadata[f"{self._prefix}:response_id"] = response_id

    def _count(self, usage: dict[str, Any]) -> None:
        counts = Counts(usage)
        prompt, output = counts.part("prompt_tokens_details"), counts.part("completion_tokens_details")
        cached = prompt.get("cached_tokens")
        self._answer.tokens = Tokens(
            prompt=counts.need("prompt_tokens"),
            output=counts.need("completion_tokens"),
            cache_read=cached if cached is not None else counts.get("prompt_cache_hit_tokens"),
            cache_write=prompt.get("cache_write_tokens"),
            reasoning=output.get("reasoning_tokens"),
        )


def _served_error(error: Any) -> ServiceError:
    return ServiceError(error if isinstance(error, dict) else {"message": str(error)})


# -- tool calls in pieces --


@dataclass
class _Call:
    key: tuple[str, int]
    #: The id of the server, empty until it sends one.
    id: str = ""
    name: str = ""
    is_announced: bool = False
    pieces: list[str] = field(default_factory=list)


class StreamedCalls:
    """Feed an answer with tool calls that arrive in pieces.

    The protocol says: an index, an id and a name first, then pieces of the arguments. Servers leave out the index or
    the id, send whole calls, several under one index, or arguments as an object; the result is the same.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._calls: list[_Call] = []
        self._by_index: dict[Any, _Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    async def feed(self, index: Any, call_id: str | None, name: str | None, arguments: Any) -> None:
        """Read one piece of a call, or a whole one; missing fields are None."""
        piece = "" if arguments is None else arguments
        if not isinstance(piece, str):
            piece = json.dumps(piece, ensure_ascii=False)
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
            call.is_announced = True
            await self._answer.end_said()
            await self._answer.start(call.key, "tool_use", id=call.id or f"call_{uuid4().hex[:24]}", name=call.name)
            await self._answer.add(call.key, "".join(call.pieces))

    def finish(self) -> None:
        """Check that every call has a name; raise InvalidToolCallError otherwise."""
        for call in self._calls:
            if not call.name:
                raise InvalidToolCallError(
                    "the model made a tool call without a name", raw_arguments="".join(call.pieces)
                )

    def _known(self, index: Any, call_id: str, name: str, piece: str) -> _Call | None:
        """Return the call that a piece belongs to, None for a new call."""
        if index is None and call_id:
            return next((call for call in self._calls if call.id == call_id), None)
        known = self._by_index.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        if known is None or (call_id and known.id and call_id != known.id):
            return None
        if call_id or not name or not known.name:
            return known
        # A repeated name: some servers send it with every piece, others begin the next call with it.
        return None if index is None or (piece and _is_whole(known)) else known


def _is_whole(call: _Call) -> bool:
    try:
        json.loads("".join(call.pieces))
    except ValueError:
        return False
    return True


# -- thinking in the text --


_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"

Said = tuple[Literal["text", "thinking"], str]


class ThinkTags:
    """Split a streamed text that may begin with `<think>...</think>` into thinking and text.

    Tags elsewhere are text: only at the beginning does a model mean them.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self._state: Literal["start", "thinking", "behind", "text"] = "start" if enabled else "text"
        #: The beginning of what may become a tag.
        self._held = ""
        #: Whether thinking has no text yet: leading blank lines are dropped.
        self._is_blank = True

    @property
    def is_splitting(self) -> bool:
        """Whether pieces still have to be split; otherwise they are plain text."""
        return self._state != "text"

    def feed(self, piece: str) -> list[Said]:
        """Return the parts that are certain; a possible beginning of a tag is held back."""
        rest, self._held = self._held + piece, ""
        said: list[Said] = []
        if self._state == "start":
            start = rest.lstrip()
            if start.startswith(_OPEN):
                self._state, rest = "thinking", start[len(_OPEN) :]
            elif _OPEN.startswith(start):
                self._held = rest
                return []
            else:
                self._state = "text"
        if self._state == "thinking":
            thought, mark, rest = rest.partition(_CLOSE)
            if mark:
                self._state = "behind"
            else:
                keep = next((n for n in range(len(_CLOSE) - 1, 0, -1) if thought.endswith(_CLOSE[:n])), 0)
                thought, self._held = thought[: len(thought) - keep], thought[len(thought) - keep :]
            thought = thought.lstrip("\n") if self._is_blank else thought
            if thought:
                self._is_blank = False
                said.append(("thinking", thought))
        if self._state == "behind" and (rest := rest.lstrip()):
            self._state = "text"
        return [*said, ("text", rest)] if rest else said

    def flush(self) -> list[Said]:
        """Return the rest at the end of the text."""
        held, self._held = self._held, ""
        return [("thinking" if self._state == "thinking" else "text", held)] if held else []
