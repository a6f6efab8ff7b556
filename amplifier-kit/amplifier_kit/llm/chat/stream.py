"""Feed an answer from chat completions, streamed or whole."""

from __future__ import annotations

import json
from typing import Any, Final

from amplifier_kit.engine.usage import Counts
from amplifier_kit.llm.answer import Answer, FinishReason
from amplifier_kit.llm.chat.calls import StreamedCalls, arguments_text, new_call_id
from amplifier_kit.llm.chat.messages import REASONING_FIELD, REASONING_FIELDS
from amplifier_kit.llm.chat.tags import ThinkTags
from amplifier_kit.llm.exchange import plain_stream
from amplifier_kit.llm.usage import Tokens

__all__ = ["ChatReading", "ServedError", "read_chat"]

_REASONS: Final[dict[str, FinishReason]] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
#: Ends that are none: the server gave up.
_BROKEN: Final = frozenset({"error", "abort", "aborted", "cancelled"})
#: Fields of signed details that arrive in pieces.
_PIECES: Final = ("text", "summary", "data")
#: What the protocol knows of a delta; thinking is in whatever a server adds to it.
_KNOWN: Final = frozenset({"role", "content", "refusal", "tool_calls", "function_call"})


class ServedError(Exception):
    """Carry an error that a server put into an answer, for the shared part to read."""

    def __init__(self, error: Any) -> None:
        super().__init__("the server sent an error in place of an answer")
        self.body = error if isinstance(error, dict) else {"message": str(error)}
        self.code = self.body.get("code")


async def read_chat(
    client: Any,
    payload: dict[str, Any],
    answer: Answer,
    *,
    streamed: bool = True,
    include_usage: bool = True,
    think_tags: bool = True,
    prefix: str = "chat",
) -> None:
    """Ask by an `AsyncOpenAI` client and feed the answer; `payload` is that of `chat_payload`.

    The answer is finished only when the server gave a reason for its end. `prefix` is that of the metadata's keys.
    Raises what the SDK raises, and ServedError.
    """
    reading = ChatReading(answer, think_tags=think_tags, prefix=prefix)
    if not streamed:
        raw = await client.chat.completions.with_raw_response.create(**payload, stream=False)
        answer.headers = dict(raw.headers)
        await reading.whole(json.loads(raw.text))
        return
    usage = {"stream_options": {"include_usage": True}} if include_usage else {}
    async with await plain_stream(client.chat.completions, **payload, **usage) as stream:
        answer.headers = dict(stream.response.headers)
        if answer.headers.get("content-type", "").startswith("application/json"):
            # A server that cannot stream, or not this request, answers in one piece.
            await reading.whole(json.loads(await stream.response.aread()))
            return
        async for chunk in stream:
            await reading.chunk(chunk)
    await reading.finish()


class ChatReading:
    """Read the chunks of one streamed completion, or a whole one, into an answer."""

    def __init__(self, answer: Answer, *, think_tags: bool = True, prefix: str = "chat") -> None:
        self._answer = answer
        self._prefix = prefix
        self._tags = ThinkTags(enabled=think_tags)
        self._calls = StreamedCalls(answer)
        self._whole_calls = 0
        self._details: dict[Any, dict[str, Any]] = {}
        self._refusal: list[str] = []
        self._reason: str | None = None

    async def chunk(self, chunk: dict[str, Any]) -> None:
        """Take one chunk, as the JSON that was sent; what the protocol requires may be missing all the same."""
        usage, choices = chunk.get("usage"), chunk.get("choices")
        if usage:
            self._count(usage)
        if not choices:
            return
        choice = choices[0]
        reason = choice.get("finish_reason")
        if reason is not None:
            self._end(reason, chunk.get("id"), chunk.get("model"), choice.get("error"))
        delta = choice.get("delta")
        if not delta:
            return
        if not _KNOWN.issuperset(delta):
            await self._think(delta)
        content = delta.get("content")
        if content:
            if type(content) is str and not self._tags.is_open:  # as nearly every token
                await self._answer.say("text", content)
            else:
                await self._speak(content)
        if delta.get("refusal"):
            self._refusal.append(delta["refusal"])
        if delta.get("tool_calls"):
            await self._call(delta["tool_calls"])
        called = delta.get("function_call")
        if called is not None:  # how it was done before there were several
            await self._calls.feed("function", None, called.get("name"), called.get("arguments"))

    async def whole(self, completion: Any) -> None:
        """Take a whole completion, as the JSON that was sent, and finish the answer."""
        if not isinstance(completion, dict) or completion.get("error"):
            raise ServedError(completion.get("error") if isinstance(completion, dict) else completion)
        self._count(completion.get("usage") or {})
        choices = completion.get("choices") or [{}]
        choice: dict[str, Any] = choices[0]
        if choice.get("finish_reason"):
            self._end(choice["finish_reason"], completion.get("id"), completion.get("model"), choice.get("error"))
        message = choice.get("message") or {}
        await self._think(message)
        if message.get("content"):
            await self._speak(message["content"])
        if message.get("refusal"):
            self._refusal.append(message["refusal"])
        entries = list(message.get("tool_calls") or ())
        entries += [{"function": message["function_call"]}] if message.get("function_call") else []
        for entry in entries:
            function = entry.get("function") or {}
            self._whole_calls += 1
            arguments = arguments_text(function.get("arguments"))
            await self._answer.call(entry.get("id") or new_call_id(), function.get("name") or "", arguments)
        await self.finish()

    async def finish(self) -> None:
        """Finish the answer if the server said that it is complete."""
        for kind, text in self._tags.flush():
            await self._answer.say(kind, text)
        if self._reason is None or self._reason in _BROKEN:
            return  # cut short, which the answer knows by itself
        self._calls.finish()
        if self._details:
            self._answer.sign_said(content=list(self._details.values()))
        reason: FinishReason = _REASONS.get(self._reason, "stop")
        if self._refusal:
            self._answer.refusal, reason = "".join(self._refusal), "content_filter"
        if reason == "stop" and (self._calls or self._whole_calls):
            reason = "tool_use"
        await self._answer.finish(reason)

    async def _speak(self, content: Any) -> None:
        if isinstance(content, str):
            for kind, text in self._tags.feed(content):
                await self._answer.say(kind, text)
        else:
            for part in content:  # servers that stream parts instead of text
                await self._part(part)

    async def _call(self, pieces: list[dict[str, Any]]) -> None:
        for piece in pieces:
            function = piece.get("function") or {}
            await self._calls.feed(piece.get("index"), piece.get("id"), function.get("name"), function.get("arguments"))

    async def _part(self, part: Any) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            await self._answer.say("text", part.get("text") or "")
        elif kind == "thinking":
            thoughts = part.get("thinking")
            texts = thoughts if isinstance(thoughts, list) else [{"text": thoughts}]
            await self._answer.say("thinking", "".join(str(text.get("text") or "") for text in texts))

    async def _think(self, extra: dict[str, Any]) -> None:
        """Take thinking from wherever a server puts it."""
        given = extra.get("reasoning_details")
        details = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
        field = next((name for name in REASONING_FIELDS if isinstance(extra.get(name), str) and extra[name]), None)
        if field is not None:
            self._answer.metadata[REASONING_FIELD] = field
            await self._answer.say("thinking", extra[field])
        for number, item in enumerate(details):
            self._merge(item.get("index", number), item)
            if REASONING_FIELD not in self._answer.metadata:
                await self._answer.say("thinking", item.get("text") or item.get("summary") or "")

    def _merge(self, key: Any, item: dict[str, Any]) -> None:
        known = self._details.setdefault(key, {})
        for name, value in item.items():
            if name in _PIECES and isinstance(value, str):
                known[name] = known.get(name, "") + value
            elif value is not None:
                known[name] = value

    def _end(self, reason: str, response_id: str | None, model: str | None, error: Any) -> None:
        if error:
            raise ServedError(error)
        self._reason = reason
        self._answer.model = model or None
        self._answer.metadata[f"{self._prefix}:finish_reason"] = reason
        if response_id:
            self._answer.metadata[f"{self._prefix}:response_id"] = response_id

    def _count(self, usage: Any) -> None:
        if not usage:
            return
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
