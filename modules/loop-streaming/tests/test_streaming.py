"""loop-streaming: blocks, streams, pacing, pinned providers."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.message_models import ChatResponse, TextBlock, ThinkingBlock, ToolCall
from amplifier_module_loop_streaming import mount
from amplifier_module_loop_streaming.turn import tokens
from amplifier_testing.loop.fakes import LoopRig, PlainTool, ScriptedProvider, call, say


async def run(rig: LoopRig, config: dict[str, Any] | None = None) -> Any:
    await rig.mount(mount, config)
    return await rig.run()


class StreamingProvider(ScriptedProvider):
    """Give the pieces of each scripted answer one after the other."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        super().__init__()
        self.pieces = list(answers)
        self.told: list[Any] = []

    async def stream(self, request: Any, tools: Any) -> AsyncIterator[dict[str, Any]]:
        """Yield pieces."""
        self.requests.append(request)
        self.told.append(tools)
        for piece in self.pieces[len(self.requests) - 1]:
            await asyncio.sleep(0)
            yield piece


async def test_iterations_count_from_one() -> None:
    """The first model call of a turn is iteration 1, and orchestrator:complete speaks of goals."""
    rig = LoopRig(call(("1", "work", {})), say("done"), tools=[PlainTool("work")])
    assert await run(rig) == "done"
    assert [data["iteration"] for data in rig.data("provider:request")] == [1, 2]
    [complete] = rig.data("orchestrator:complete")
    assert (complete["goal_turn"], complete["goal_final"], complete["continuations"]) == (0, True, 0)


async def test_blocks_are_made_up_from_content() -> None:
    """A response without content_blocks is reported block by block all the same."""
    rig = LoopRig(ChatResponse(content=[ThinkingBlock(thinking="hm"), TextBlock(text="done")]))
    await run(rig)
    assert [(d["block_type"], d["block_index"]) for d in rig.data("content_block:start")] == [
        ("thinking", 0),
        ("text", 1),
    ]
    assert rig.data("content_block:end")[1]["block"]["text"] == "done"


async def test_thinking_is_stored_with_the_message() -> None:
    """A message with a thinking block carries it separately, and the response's metadata."""
    response = ChatResponse(
        content=[ThinkingBlock(thinking="hm", signature="s"), TextBlock(text="done")], metadata={"id": "r1"}
    )
    rig = LoopRig(response)
    await run(rig)
    stored = rig.context.messages[-1]
    assert stored["thinking_block"]["signature"] == "s"
    assert stored["metadata"] == {"id": "r1"}


async def test_a_stream_is_taken_piece_by_piece() -> None:
    """Text pieces are reported as they come and make up the answer; other kinds are skipped."""
    pieces: list[dict[str, Any]] = [
        {"content": "Hel"},
        {"content": "secret", "block_type": "thinking"},
        {"content": ""},
        {"content": "lo", "block_type": "text"},
        {"usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}},
    ]
    rig = LoopRig(tools=[PlainTool("work")])
    provider = StreamingProvider(pieces)
    rig.providers = {"live": provider}
    assert await run(rig) == "Hello"
    deltas = rig.data("content_block:delta")
    assert [(d["block_index"], d["sequence"], d["text"]) for d in deltas] == [(0, 0, "Hel"), (0, 1, "lo")]
    blocks = ("content_block:start", "content_block:delta", "content_block:end", "provider:response")
    assert rig.names(*blocks) == [blocks[0], blocks[1], blocks[1], blocks[2], blocks[3]]
    assert rig.data("provider:response")[0]["usage"]["total_tokens"] == 2
    assert [tool.name for tool in provider.told[0]] == ["work"]


async def test_a_stream_may_call_tools() -> None:
    """Calls that a stream brings are run."""
    calls = {"tool_calls": [ToolCall(id="1", name="work", arguments={})]}
    rig = LoopRig(tools=[PlainTool("work")])
    rig.providers = {"live": StreamingProvider([calls], [{"content": "done"}])}
    assert await run(rig) == "done"
    assert rig.results() == ["work done"]


@given(st.text())
def test_tokens_are_the_text(text: str) -> None:
    """Cutting a text into words and white space loses nothing."""
    assert "".join(tokens(text)) == text
    assert all(token.isspace() or not any(c.isspace() for c in token) for token in tokens(text))


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return how many seconds loops wanted to wait; they do not wait."""
    seconds_each: list[float] = []
    sleep = asyncio.sleep

    async def count(seconds: float) -> None:
        seconds_each.append(seconds)
        await sleep(0)

    monkeypatch.setattr("amplifier_kit.engine.loop.monitor.asyncio.sleep", count)
    return seconds_each


async def test_a_delay_per_word(waited: list[float]) -> None:
    """An answer in one piece is held back for as long as its words take; a stream waits piece by piece."""
    rig = LoopRig(say("three little words"))
    await run(rig, {"stream_delay": 2.0})
    assert 6.0 in waited
    waited.clear()
    live = LoopRig()
    live.providers = {"live": StreamingProvider([{"content": "a"}, {"content": " "}, {"content": "b"}])}
    await run(live, {"stream_delay": 2.0})
    assert [seconds for seconds in waited if seconds] == [2.0, 2.0]


async def test_a_distance_between_model_calls(waited: list[float]) -> None:
    """Calls that come too soon wait, and an event says how long."""
    rig = LoopRig(call(("1", "work", {})), say("done"), tools=[PlainTool("work")])
    hour = 3_600_000
    await run(rig, {"min_delay_between_calls_ms": hour})
    [delay] = rig.data("orchestrator:rate_limit_delay")
    assert (delay["configured_ms"], delay["iteration"]) == (hour, 2)
    assert 0 < delay["delay_ms"] <= hour
    assert delay["delay_ms"] + delay["elapsed_ms"] == pytest.approx(hour)
    assert [seconds for seconds in waited if seconds] == [pytest.approx(delay["delay_ms"] / 1000)]


async def test_a_stop_at_once_ends_the_wait() -> None:
    """A distance of an hour does not hold a turn that must stop at once."""
    rig = LoopRig(call(("1", "stop", {})), say("never"))
    rig.coordinator.hooks.register(
        "orchestrator:rate_limit_delay", lambda *_: rig.coordinator.cancellation.request_immediate() and None
    )
    rig.tools["stop"] = PlainTool("stop")
    await run(rig, {"min_delay_between_calls_ms": 3_600_000})
    assert len(rig.provider.requests) == 1
    assert rig.data("orchestrator:complete")[0]["status"] == "cancelled"


async def test_a_pinned_provider_answers() -> None:
    """What a person has pinned wins over priorities."""
    rig = LoopRig(say("first"))
    rig.providers["other"] = ScriptedProvider(say("second"), priority=500)
    rig.coordinator.session_state["pinned_provider"] = "other"
    assert await run(rig) == "second"


async def test_a_pinned_provider_that_is_gone_is_an_error() -> None:
    """Nobody else answers in place of a pinned provider."""
    rig = LoopRig(say("first"))
    rig.coordinator.session_state["pinned_provider"] = "gone"
    with pytest.raises(RuntimeError, match="pinned provider 'gone' is not mounted; mounted are: scripted"):
        await run(rig)
    assert rig.provider.requests == []


async def test_a_native_tool_reaches_the_provider() -> None:
    """A tool that the provider has built in is named in its own form."""
    rig = LoopRig(say("done"), tools=[PlainTool("web", native_tool_spec={"type": "web_search"})])
    await run(rig)
    [spec] = rig.provider.requests[0].tools or []
    assert spec.model_dump()["type"] == "web_search"
