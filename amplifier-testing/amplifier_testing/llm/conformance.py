"""State what every provider does, as tests: inherit `ProviderConformance` in the tests of a provider module."""

from __future__ import annotations

import asyncio
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from amplifier_core import ChatRequest
from amplifier_core.llm_errors import ContentFilterError, InvalidToolCallError
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_kit.engine.usage import InvalidUsageError
from amplifier_kit.llm.provider import LLMProvider
from amplifier_kit.llm.structured_output import ANSWER_TOOL, OutputMismatchError
from amplifier_testing.llm.rig import KEY, Rig, ask
from amplifier_testing.llm.script import Said, WireServer
from amplifier_testing.llm.server import ModelServer

__all__ = ["ConformanceBase", "MakeRig", "ProviderConformance"]

MakeRig = Callable[..., Awaitable[Rig]]

_numbers = itertools.count()
# Without the letters in which base64 for URLs differs: some SDKs send that.
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC"
_CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("call_1", "look", {"where": "här"}),
    ("call_2", "look", {"where": "there", "how": ["far", {"n": 1}]}),
)
_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}


class ConformanceBase(ABC):
    """What the suites share: subclass one of them, set `wire`, and write what is abstract."""

    wire: ClassVar[WireServer]
    #: A model whose price is known, None when the service has no prices.
    priced_model: ClassVar[str | None] = None
    #: Whether the service keeps call ids; others get ids of the provider's making.
    keeps_call_ids: ClassVar[bool] = True
    #: Tests that do not apply, each with the reason: they are skipped, and the table of the documentation says no.
    without: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise TypeError for a suite that lacks something: pytest skips abstract classes silently."""
        super().__init_subclass__(**options)
        if ConformanceBase in cls.__bases__ and not cls.__name__.startswith("Test"):
            return  # what several suites share
        lacks = [name for name in dir(cls) if getattr(getattr(cls, name, None), "__isabstractmethod__", False)]
        if lacks := lacks + ([] if hasattr(cls, "wire") else ["wire"]):
            raise TypeError(f"the suite {cls.__name__} lacks {', '.join(lacks)}: write them before it is inherited")

    @abstractmethod
    def make(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> LLMProvider:
        """Return a provider that talks to the server at `url` with the key `KEY`."""

    @abstractmethod
    def messages_in(self, body: dict[str, Any]) -> list[Any]:
        """Return the messages of a request as it went over the wire, without what says where to cache."""

    @abstractmethod
    def prefix_in(self, body: dict[str, Any]) -> Any:
        """Return what stands in front of the messages: the tools and the system prompt."""

    def said(self, said: Said) -> Any:
        """Return how the server says it; override for a provider that asks for some answers in one piece."""
        return self.wire.reply(said)

    @pytest.fixture(autouse=True)
    def left_out(self, request: pytest.FixtureRequest) -> None:
        """Skip what `without` names."""
        reason = self.without.get(request.function.__name__)
        if reason is not None:
            pytest.skip(reason)

    @pytest.fixture
    def server(self) -> Iterator[ModelServer]:
        """Give each test its own server."""
        with ModelServer() as server:
            yield server

    @pytest.fixture
    async def rig(self, server: ModelServer) -> AsyncIterator[MakeRig]:
        """Give `rig(*replies, **config)`: a provider without waits, whose server answers with these replies."""
        made: list[Rig] = []

        async def build(*replies: Any, url: str | None = None, **config: Any) -> Rig:
            server.answers(*[self.said(item) if isinstance(item, Said) else item for item in replies])
            coordinator: MockCoordinator = MockCoordinator()
            quick = {"min_retry_delay": 0, "max_retries": 2, "stream_idle_timeout": 60, "timeout": 60}
            # A separate account: limits and breakers belong to the process.
            address = url or f"{server.url}/n{next(_numbers)}"
            rig = Rig(self.make(address, {**quick, **config}, coordinator), server, coordinator)
            made.append(rig)
            return rig

        yield build
        for rig in made:
            await rig.provider.close()


class ProviderConformance(ConformanceBase):
    """How a provider asks and what it makes of answers."""

    # -- streaming --

    async def test_streamed_text(self, rig: MakeRig) -> None:
        """Text arrives piece by piece, numbered, under one request id, and is the response's text."""
        one = await rig(Said(("Hello", " wörld")))
        response = await one.provider.complete(ask())
        assert response.text == "Hello wörld"
        assert [block.model_dump()["text"] for block in response.content] == ["Hello wörld"]
        assert response.finish_reason == "stop"
        assert one.names == [
            "llm:request",
            "llm:stream_block_start",
            "llm:stream_block_delta",
            "llm:stream_block_end",
            "llm:response",
        ]
        assert [(d["sequence"], d["text"]) for d in one.events("llm:stream_block_delta")] == [
            (0, "Hello"),
            (1, " wörld"),
        ]
        assert len({data["request_id"] for _, data in one.heard}) == 1
        assert one.event("llm:response")["status"] == "ok"

    async def test_streamed_thinking_and_calls(self, rig: MakeRig) -> None:
        """Thinking, text and two parallel calls are streamed as blocks of their kinds and stand in the response."""
        one = await rig(Said(("I look.",), ("Let me", " see."), calls=_CALLS))
        response = await one.provider.complete(ask(tools=("look",)), extended_thinking=True)
        calls = one.provider.parse_tool_calls(response)
        assert [(call.name, call.arguments) for call in calls] == [(name, given) for _, name, given in _CALLS]
        assert len({call.id for call in calls}) == 2
        if self.keeps_call_ids:
            assert [call.id for call in calls] == ["call_1", "call_2"]
        blocks = one.streamed()
        assert blocks[:-2] == [("thinking", "Let me see."), ("text", "I look.")]
        assert [(kind, json.loads(text)) for kind, text in blocks[-2:]] == [("tool_use", call[2]) for call in _CALLS]
        starts = one.events("llm:stream_block_start")
        assert [start["block_index"] for start in starts] == list(range(len(starts)))
        assert [start.get("name") for start in starts[-2:]] == ["look", "look"]
        assert [block.type for block in response.content] == ["thinking", "text", "tool_call", "tool_call"]
        assert response.finish_reason == "tool_use"

    @pytest.mark.parametrize("how", ["request", "config"])
    async def test_streaming_switched_off(self, rig: MakeRig, how: str) -> None:
        """`metadata.stream` False turns the stream's events off for one call, `use_streaming` false for all."""
        one = await rig(Said(), use_streaming=how != "config")
        response = await one.provider.complete(ask(metadata={"stream": False} if how == "request" else None))
        assert response.text == "Hello world"
        assert one.names == ["llm:request", "llm:response"]
        if how == "request":
            await one.provider.complete(ask())
            assert one.streamed() == [("text", "Hello world")]

    @pytest.mark.parametrize("size", [1, 7])
    async def test_chunks_of_any_size(self, rig: MakeRig, size: int) -> None:
        """However the bytes are cut, also inside a character, the answer is the same."""
        reply = self.wire.reply(Said(("Grüße", " 世界"), calls=_CALLS)).split(size)
        response = await (await rig(reply)).provider.complete(ask(tools=("look",)))
        assert response.text == "Grüße 世界"
        assert [call.arguments for call in response.tool_calls or ()] == [call[2] for call in _CALLS]

    async def test_pings_say_nothing(self, rig: MakeRig) -> None:
        """What only keeps the connection alive leaves no trace."""
        ping = self.wire.ping()
        reply = self.wire.reply(Said())
        one = await rig(reply.inserted(self.wire.first_text, ping, ping))
        assert (await one.provider.complete(ask())).text == "Hello world"
        assert one.streamed() == [("text", "Hello world")]

    async def test_cancelled_in_the_middle(self, rig: MakeRig) -> None:
        """A cancelled call tells its listeners, closes the connection and leaves nothing running."""
        one = await rig(self.wire.reply(Said()).stalled(self.wire.first_text))
        running = set(asyncio.all_tasks())
        task = asyncio.create_task(one.provider.complete(ask()))
        assert await wait_for(lambda: bool(one.events("llm:stream_block_delta")), timeout=60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert one.event("llm:stream_aborted")["error"]["type"] == "CancelledError"
        assert one.event("llm:response")["status"] == "error"
        assert await wait_for(lambda: one.server.disconnects == 1, timeout=60)
        assert {left for left in asyncio.all_tasks() if not left.done()} <= running

    # -- what is sent --

    async def test_the_beginning_stays_the_same(self, rig: MakeRig) -> None:
        """Two requests of one conversation share everything up to the last message, to the byte."""
        one = await rig(Said(("I look.",), ("Hm.",), calls=_CALLS), Said(), Said())
        history: list[Any] = [("system", "Be kind."), ("system", "Be brief."), "What is here?"]
        for number in range(3):
            response = await one.provider.complete(ask(*history, ("user", f"<note {number}>"), tools=("look", "go")))
            history.append(_stored(response))
            history += [_answered(call.id) for call in response.tool_calls or ()] or [f"And {number}?"]
        bodies = one.server.bodies
        assert len({json.dumps(self.prefix_in(body)) for body in bodies}) == 1
        for before, after in itertools.pairwise(bodies):
            # Without its last message, which holds a note for that request only.
            shared = self.messages_in(before)[:-1]
            assert json.dumps(self.messages_in(after)[: len(shared)]) == json.dumps(shared)
        same = await rig(Said())
        await same.provider.complete(ask(*history, tools=("look", "go")))
        await same.provider.complete(ask(*history, tools=("look", "go")))
        assert one.server.requests[-1].body == one.server.requests[-2].body

    async def test_late_instructions_stay_in_their_place(self, rig: MakeRig) -> None:
        """A system message in the middle of a conversation does not change what stands in front of it."""
        one = await rig(Said())
        await one.provider.complete(ask(("system", "Be kind."), "a"))
        await one.provider.complete(ask(("system", "Be kind."), "a", ("assistant", "b"), "c", ("system", "Hurry!")))
        before, after = one.server.bodies
        assert self.prefix_in(before) == self.prefix_in(after)
        assert "Hurry!" in json.dumps(self.messages_in(after)[1:])

    async def test_thinking_goes_back_signed(self, rig: MakeRig) -> None:
        """Thinking is sent back with its signature to the service that signed it, and not to another."""
        said = Said(("I look.",), ("Let me see.",), calls=_CALLS[:1])
        one = await rig(said, Said())
        response = await one.provider.complete(ask("x", tools=("look",)), extended_thinking=True)
        message = _stored(response)
        call_id = (response.tool_calls or [])[0].id
        await one.provider.complete(ask("x", message, _answered(call_id), tools=("look",)), extended_thinking=True)
        assert said.signature in json.dumps(one.server.bodies[-1])
        foreign = [{**block, "origin": "elsewhere"} for block in message["content"]]
        await one.provider.complete(ask("x", {**message, "content": foreign}, _answered(call_id), tools=("look",)))
        assert said.signature not in json.dumps(one.server.bodies[-1])

    async def test_images(self, rig: MakeRig) -> None:
        """Images of the user and of a tool's result reach the service."""
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PIXEL}}
        calling = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "tool": "look", "arguments": {}}]}
        seen = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a shot"}, image]}
        one = await rig(Said())
        await one.provider.complete(ask({"role": "user", "content": [image]}, calling, seen, tools=("look",)))
        sent = json.dumps(one.server.bodies[-1])
        assert sent.count(_PIXEL) == 2
        assert "a shot" in sent

    async def test_a_broken_history_is_repaired(self, rig: MakeRig) -> None:
        """A call without a result gets one that says so, and the repair is reported once."""
        one = await rig(Said())
        calling = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "tool": "look", "arguments": {}}]}
        for _ in range(2):
            await one.provider.complete(ask("x", calling, "never mind", tools=("look",)))
        repaired = one.event("provider:tool_sequence_repaired")
        [repair] = repaired["repairs"]
        assert (repair["tool_call_id"], repair["tool_name"]) == ("c1", "look")
        assert "Tool result missing" in json.dumps(one.server.bodies[-1])

    async def test_session_id_only_when_asked(self, rig: MakeRig) -> None:
        """The session's id reaches the service only with `send_session_id`."""
        for wanted in (False, True):
            one = await rig(Said(), send_session_id=wanted)
            await one.provider.complete(ask())
            heard = one.server.requests[-1]
            sent = heard.body.decode() + json.dumps(heard.headers)
            assert (str(one.coordinator.session_id) in sent) is wanted

    # -- usage --

    async def test_usage_and_cost(self, rig: MakeRig) -> None:
        """Tokens are counted with the cache's share, and money is exact, or unknown."""
        said = Said(prompt_tokens=1000, output_tokens=50, cache_read=600, model=self.priced_model or "")
        one = await rig(said)
        assert one.provider.ledger.contribution() is None
        response = await one.provider.complete(ask(model=self.priced_model))
        usage = response.usage
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (1000, 50, 1050)
        told = one.event("llm:response")["usage"]
        contributed = one.provider.ledger.contribution()
        assert contributed is not None
        if one.provider.is_free:
            assert (str(usage.cost_usd), contributed["cost_usd"]) == ("0", "0")
        elif self.priced_model is None:
            assert usage.cost_usd is None
            assert "cost_usd" not in told
            assert contributed["cost_usd"] is None
        else:
            assert usage.cost_usd is not None
            assert usage.cost_usd > 0
            assert told["cost_usd"] == str(usage.cost_usd) == contributed["cost_usd"]
            assert usage.cache_read_tokens == 600

    @pytest.mark.parametrize("value", ["many", -1, 1.5, 10**30, [1]])
    async def test_invalid_usage_is_an_error(self, rig: MakeRig, value: Any) -> None:
        """Usage with invalid token counts fails with an error code, and the answer is not counted as free."""
        one = await rig(Said(output_tokens=value), max_retries=0)
        with pytest.raises(InvalidUsageError) as raised:
            await one.provider.complete(ask())
        assert (raised.value.code, raised.value.provider) == ("provider.usage", one.provider.name)
        told = one.event("llm:response")
        assert (told["status"], told["error"]["type"]) == ("error", "InvalidUsageError")
        assert one.provider.is_free or told["unpriced_attempts"] == 1

    async def test_an_unknown_price_is_not_zero(self, rig: MakeRig) -> None:
        """A model that the price list does not know costs something unknown."""
        one = await rig(Said(model="no-such-model-9"))
        response = await one.provider.complete(ask(model="no-such-model-9"))
        assert response.usage is not None
        assert response.usage.cost_usd is None
        contributed = one.provider.ledger.contribution()
        assert contributed == {"cost_usd": None, "unpriced_models": ["no-such-model-9"], "unpriced_calls": 1}

    # -- forms --

    async def test_structured_output(self, rig: MakeRig) -> None:
        """An answer that does not fit the schema is asked for again, with the place that is wrong."""
        one = await rig(*[self._shaped(answer) for answer in ({"city": "Rome"}, {"city": "Rome", "people": 3})])
        response = await one.provider.complete(self._form())
        assert json.loads(response.text or "") == {"city": "Rome", "people": 3}
        assert response.tool_calls is None
        retry = one.event("provider:retry")
        assert retry["error_type"] == "OutputMismatchError"
        assert "people" in retry["error_message"]
        assert "people' is a required property" in one.server.requests[-1].body.decode()
        assert len(one.events("llm:request")) == 2

    async def test_structured_output_gives_up(self, rig: MakeRig) -> None:
        """A model that cannot be brought to the schema is an error that names the failing path."""
        one = await rig(self._shaped({"city": "Rome", "people": "many"}), structured_output_retries=1)
        with pytest.raises(OutputMismatchError, match=r"\$\.people"):
            await one.provider.complete(self._form())
        assert len(one.server.requests) == 2

    def _form(self) -> ChatRequest:
        return ask("How many?", response_format=ResponseFormatJsonSchema(json_schema=_SCHEMA))

    def _shaped(self, answer: dict[str, Any]) -> Any:
        """Answer the way that was asked for: by the tool, or in the text."""

        def reply(heard: Any) -> Any:
            if ANSWER_TOOL in heard.body.decode():
                return self.wire.reply(Said((), calls=(("c", ANSWER_TOOL, answer),)))
            return self.wire.reply(Said((json.dumps(answer),)))

        return reply

    # -- bad answers --

    async def test_a_refusal_is_an_error(self, rig: MakeRig) -> None:
        """An answer that the service's filter stopped is no answer."""
        with pytest.raises(ContentFilterError):
            await (await rig(Said(finish="content_filter"))).provider.complete(ask())

    async def test_a_cut_answer_says_so(self, rig: MakeRig) -> None:
        """An answer at its limit of tokens is given, with the reason."""
        response = await (await rig(Said(finish="length"))).provider.complete(ask())
        assert (response.text, response.finish_reason) == ("Hello world", "length")

    # -- the rest --

    async def test_models(self, rig: MakeRig) -> None:
        """The service's models are listed with their limits."""
        one = await rig(self.wire.models("model-a", "model-b"))
        models = await one.provider.list_models()
        assert [model.id for model in models] == ["model-a", "model-b"]
        assert all(model.context_window > 0 and model.max_output_tokens > 0 for model in models)

    async def test_raw_payloads_hold_no_key(self, rig: MakeRig) -> None:
        """With `raw`, requests and responses are in the events; the key never is."""
        one = await rig(Said((f"your key is {KEY}",)), raw=True)
        await one.provider.complete(ask(f"my key is {KEY}"))
        assert "my key is" in json.dumps(one.event("llm:request")["raw"])
        assert "your key is" in json.dumps(one.event("llm:response")["raw"])
        raws = [data for event, data in one.heard if event in ("llm:request", "llm:response")]
        assert KEY not in json.dumps(raws)
        quiet = await rig(Said())
        await quiet.provider.complete(ask())
        assert "raw" not in quiet.event("llm:request")

    async def test_used_again_after_close(self, rig: MakeRig) -> None:
        """A closed provider makes itself a new client."""
        one = await rig(Said())
        await one.provider.complete(ask())
        await one.provider.close()
        assert (await one.provider.complete(ask())).text == "Hello world"

    async def test_arguments_that_are_not_json(self, rig: MakeRig) -> None:
        """A call whose arguments cannot be read is asked for once more, and then is an error."""
        one = await rig(self.broken_call())
        with pytest.raises(InvalidToolCallError, match="look"):
            await one.provider.complete(ask(tools=("look",)))
        assert len(one.server.requests) == 2

    @abstractmethod
    def broken_call(self) -> Any:
        """Return a reply with a call to `look` whose arguments are not JSON."""


def _stored(response: Any) -> dict[str, Any]:
    """Return the message that a loop stores for a response."""
    calls = [{"id": call.id, "tool": call.name, "arguments": call.arguments} for call in response.tool_calls or ()]
    message = {"role": "assistant", "content": [block.model_dump() for block in response.content]}
    return {**message, "tool_calls": calls, "metadata": response.metadata}


def _answered(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": "look", "content": f"a desk, for {call_id}"}
