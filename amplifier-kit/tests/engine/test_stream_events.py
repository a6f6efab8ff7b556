"""The events of an answer that arrives piece by piece."""

from __future__ import annotations

import uuid
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.hooks import HookRegistry
from amplifier_kit.engine.stream_events import STREAM_EVENTS, StreamEmitter

Heard = list[tuple[str, dict[str, Any]]]


def listening() -> tuple[HookRegistry, Heard]:
    """Return a registry, and what is heard on it, without the time."""
    hooks, heard = HookRegistry(), cast(Heard, [])

    def hear(event: str, data: dict[str, Any]) -> None:
        heard.append((event, {key: value for key, value in data.items() if key != "timestamp"}))

    hooks.register("*", hear)
    return hooks, heard


async def test_a_block_is_started_filled_and_ended() -> None:
    """Every event has the request's id, the block's place and kind; pieces are numbered from 0 in each block."""
    hooks, heard = listening()
    emitter = StreamEmitter(hooks, "r-1")
    await emitter.block_start(0, "thinking")
    await emitter.block_delta(0, "hm")
    await emitter.block_end(0)
    await emitter.block_start(1, "text")
    await emitter.block_delta(1, "a ")
    await emitter.block_delta(1, "b")
    await emitter.block_end(1)
    text = {"request_id": "r-1", "block_index": 1, "block_type": "text"}
    thinking = {"request_id": "r-1", "block_index": 0, "block_type": "thinking"}
    assert heard == [
        ("llm:stream_block_start", thinking),
        ("llm:stream_block_delta", {**thinking, "sequence": 0, "text": "hm"}),
        ("llm:stream_block_end", thinking),
        ("llm:stream_block_start", text),
        ("llm:stream_block_delta", {**text, "sequence": 0, "text": "a "}),
        ("llm:stream_block_delta", {**text, "sequence": 1, "text": "b"}),
        ("llm:stream_block_end", text),
    ]


async def test_the_block_of_a_tool_call_has_its_name() -> None:
    """A listener knows which tool is being called before its arguments are complete."""
    hooks, heard = listening()
    await StreamEmitter(hooks, "r-1").block_start(2, "tool_use", "bash")
    assert heard == [
        ("llm:stream_block_start", {"request_id": "r-1", "block_index": 2, "block_type": "tool_use", "name": "bash"})
    ]


async def test_nothing_is_not_sent() -> None:
    """An empty piece is no event and uses up no number."""
    hooks, heard = listening()
    emitter = StreamEmitter(hooks)
    await emitter.block_start(0, "text")
    await emitter.block_delta(0, "")
    await emitter.block_delta(0, "x")
    assert [data.get("sequence") for _, data in heard] == [None, 0]


async def test_an_attempt_has_an_id_of_its_own() -> None:
    """Without a given id, every emitter makes a fresh uuid4."""
    first, second = StreamEmitter(None), StreamEmitter(None)
    assert first.request_id != second.request_id
    assert uuid.UUID(first.request_id).version == 4


async def test_an_abort_is_told_once_and_only_after_something_was() -> None:
    """A stream that emitted nothing emits no abort; one that did emits it once, with the reason."""
    hooks, heard = listening()
    silent = StreamEmitter(hooks)
    await silent.abort(RuntimeError("early"))
    assert heard == []
    emitter = StreamEmitter(hooks, "r-1")
    await emitter.block_start(0, "text")
    await emitter.abort(ConnectionError("gone"))
    await emitter.abort(ConnectionError("gone"))
    assert heard[1:] == [
        ("llm:stream_aborted", {"request_id": "r-1", "error": {"type": "ConnectionError", "msg": "gone"}})
    ]


@pytest.mark.parametrize("enabled", [True, False])
async def test_without_listeners_nothing_happens(enabled: bool) -> None:
    """Switched off, or without hooks, an emitter keeps its rules and emits nothing."""
    hooks, heard = listening()
    emitter = StreamEmitter(None if enabled else hooks, enabled=enabled)
    await emitter.block_start(0, "text")
    await emitter.block_delta(0, "x")
    await emitter.block_end(0)
    await emitter.abort(RuntimeError())
    assert heard == []


pieces = st.lists(
    st.tuples(st.sampled_from(["text", "thinking"]), st.lists(st.text(max_size=4), max_size=5)), max_size=4
)


@given(pieces)
async def test_the_pieces_are_the_text(blocks: list[tuple[Literal["text", "thinking"], list[str]]]) -> None:
    """Put together in their order, the pieces of a block are its text, and their numbers have no gaps."""
    hooks, heard = listening()
    emitter = StreamEmitter(hooks)
    for index, (kind, parts) in enumerate(blocks):
        await emitter.block_start(index, kind)
        for part in parts:
            await emitter.block_delta(index, part)
        await emitter.block_end(index)
    for index, (kind, parts) in enumerate(blocks):
        own = [(event, data) for event, data in heard if data["block_index"] == index]
        deltas = [data for event, data in own if event == "llm:stream_block_delta"]
        assert [event for event, _ in (own[0], own[-1])] == ["llm:stream_block_start", "llm:stream_block_end"]
        assert "".join(data["text"] for data in deltas) == "".join(parts)
        assert [data["sequence"] for data in deltas] == list(range(len(deltas)))
        assert {data["block_type"] for _, data in own} == {kind}


def test_the_events_are_named() -> None:
    """What providers contribute is what the emitter emits."""
    assert STREAM_EVENTS == (
        "llm:stream_block_start",
        "llm:stream_block_delta",
        "llm:stream_block_end",
        "llm:stream_aborted",
    )
