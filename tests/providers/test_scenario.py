"""One scenario with every provider: the same events, the same transcript."""

from __future__ import annotations

import json
from typing import Any

from amplifier_testing.llm import Said

# Without the letters in which base64 for URLs differs: some SDKs send that.
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC"
_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PIXEL}}
_CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("call_1", "read_file", {"file_path": "a.txt"}),
    ("call_2", "glob", {"pattern": "*.txt"}),
)


def _asked(*blocks: str) -> list[str]:
    """Return the events of one question to the model and its answer of these blocks."""
    told = ["content_block:start", "content_block:end"] * len(blocks)
    started = [f"llm:stream_block_start {block}" for block in blocks]
    return ["provider:request", "llm:request", *started, "llm:response", "provider:response", *told]


_BEGUN = ["execution:start", "prompt:submit"]
_DONE = ["prompt:complete", "orchestrator:complete", "execution:end"]
_TOOLS = [
    *["approval:granted"] * 2,
    "artifact:read",
    "tool:post glob",
    "tool:post read_file",
    "tool:pre glob",
    "tool:pre read_file",
]
_BROKEN_OFF = ["llm:stream_block_start text", "llm:stream_aborted", "llm:response", "provider:error"]
_EVENTS = [
    *["session:start", *_BEGUN, *_asked("thinking", "text", "tool_use", "tool_use"), *_TOOLS, *_asked("text"), *_DONE],
    *[*_BEGUN, "provider:request", "llm:request", *_BROKEN_OFF, "cancel:requested", *_DONE, "cancel:completed"],
    *["session:end", "session:resume", *_BEGUN, *_asked("thinking", "text"), *_DONE, "session:end"],
]
_BLOCKS = [
    ("thinking", "Let me see.", "whole"),
    ("text", "I look.", "whole"),
    ("tool_use", _CALLS[0][2], "whole"),
    ("tool_use", _CALLS[1][2], "whole"),
    ("text", "Two files.", "whole"),
    ("text", "Well", "aborted"),
    ("thinking", "Hm.", "whole"),
    ("text", "Yes.", "whole"),
]
_SHAPES = [
    ("user", "image"),
    ("user", "words"),
    ("assistant", "thinking", "text", "tool_call", "tool_call", "calls read_file", "calls glob", "thinking_text"),
    ("tool", "words", "answers read_file"),
    ("tool", "words", "answers glob"),
    ("assistant", "text"),
    ("user", "words"),
    ("user", "words"),
    ("assistant", "thinking", "text", "thinking_text"),
]


async def test_the_same_with_every_provider(lab: Any, strict: Any) -> None:
    """Text, thinking, two tools at once, an image, a cancelled turn and a resume are the same with every provider."""
    wire = strict.service.wire
    strict.says(Said(("I look.",), ("Let me", " see."), calls=_CALLS), Said(("Two", " files.")))
    async with lab.session(strict) as runtime:
        await runtime.session.coordinator.get("context").add_message({"role": "user", "content": [_IMAGE]})
        assert await runtime.execute("What is here?") == "Two files."
        strict.replies(wire.reply(Said(("Well", ", no"))).stalled(wire.first_text))
        await lab.cancelled(runtime, "Tell me more.")
    strict.says(Said(("Yes.",), ("Hm.",)))
    async with lab.session(strict, resumed=True) as runtime:
        assert await runtime.execute("Go on.") == "Yes."
    assert lab.story() == _EVENTS
    assert lab.logged() == _EVENTS
    assert [_read(block) for block in lab.blocks()] == _BLOCKS
    assert lab.shapes() == _SHAPES
    assert strict.refused == []
    assert strict.pairs == [0, 2, 2, 2]
    assert _PIXEL in json.dumps(strict.server.bodies[0])


async def test_the_messages_say_the_same(lab: Any, strict: Any) -> None:
    """What a message says, and which call a result answers, is in the same places whoever the model was."""
    strict.says(Said(("I look.",), ("Let me", " see."), calls=_CALLS), Said(("Two", " files.")))
    async with lab.session(strict) as runtime:
        await runtime.execute("What is here?")
    asked, calling, read, listed, answered = lab.transcript()
    assert asked["content"] == "What is here?"
    thinking, text, *blocks = calling["content"]
    assert (thinking["thinking"], calling["thinking_text"], text["text"]) == ("Let me see.", "Let me see.", "I look.")
    called = [(call["id"], call["tool"], call["arguments"]) for call in calling["tool_calls"]]
    assert called == [(block["id"], block["name"], block["input"]) for block in blocks]
    assert [call[1:] for call in called] == [call[1:] for call in _CALLS]
    assert [read["tool_call_id"], listed["tool_call_id"]] == [call[0] for call in called]
    assert "the text of a" in read["content"]
    assert "b.txt" in listed["content"]
    assert answered["content"][0]["text"] == "Two files."


def _read(block: tuple[str, str, str]) -> tuple[str, Any, str]:
    kind, text, end = block
    return kind, json.loads(text) if kind == "tool_use" else text, end
