"""What the Responses providers need of the shared part, and what they share among themselves."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import Message
from amplifier_kit.engine.stream_events import StreamEmitter
from amplifier_kit.llm.prices import Tokens
from amplifier_kit.llm.request import Call, Text, read_conversation
from amplifier_kit.llm.response import Answer
from amplifier_kit.llm.responses.models import Abilities
from amplifier_kit.llm.responses.request import Link, digest_history, find_link, items_of


async def test_a_block_can_be_taken_back() -> None:
    """A block that was dropped has ended for the listeners and is no part of the response."""
    heard: list[tuple[str, Any]] = []

    class Hooks:
        async def emit(self, event: str, data: dict[str, Any]) -> None:
            heard.append((event, data["block_index"]))

    answer = Answer(StreamEmitter(Hooks(), "r"), "openai")
    await answer.start("a", "tool_use", id="c1", name="look")
    await answer.add("a", '{"cut')
    await answer.drop("a")
    await answer.drop("a")
    await answer.call("c2", "look", {})
    await answer.finish("tool_use")
    response = answer.response()
    assert [call.id for call in response.tool_calls or ()] == ["c2"]
    assert [(event.rpartition("_")[2], index) for event, index in heard] == [
        ("start", 0),
        ("delta", 0),
        ("end", 0),
        ("start", 1),
        ("end", 1),
    ]


def test_tokens_of_two_calls() -> None:
    """Sums keep what is unknown apart from what is nothing."""
    one = Tokens(10, 5, cache_read=3, priced={"web_searches": 1})
    total = one + Tokens(1, 2, cache_read=None, reasoning=4, priced={"web_searches": 2, "cache_write_1h_tokens": 7})
    assert total == Tokens(11, 7, cache_read=3, reasoning=4, priced={"cache_write_1h_tokens": 7, "web_searches": 3})
    assert total.cache_write is None


@pytest.mark.parametrize(("origin", "kept"), [(None, True), ("openai", True), ("elsewhere", False)])
def test_texts_and_calls_keep_what_is_their_services(origin: str | None, kept: bool) -> None:
    """What a service noted on a block comes back with it, unless the block says that it is another's."""
    noted: dict[str, Any] = {"openai:item": {"id": "i"}, "citations": [], **({"origin": origin} if origin else {})}
    blocks = [
        {"type": "text", "text": "a", **noted},
        {"type": "tool_call", "id": "c", "name": "look", "input": {}, **noted},
    ]
    done = {"role": "tool", "tool_call_id": "c", "content": "r"}
    turn, _ = read_conversation([Message(role="assistant", content=blocks), Message(**done)]).turns
    extra = {"openai:item": {"id": "i"}} if kept else {}
    assert turn.parts == (Text("a", extra), Call("c", "look", {}, extra))


def test_efforts() -> None:
    """A wish that a model does not take becomes the next lower one, or its lowest; unknown words pass."""
    able = Abilities(efforts=("low", "high"))
    wishes = ("none", "low", "medium", "max", "whatever")
    assert [able.effort(wish) for wish in wishes] == ["low", "low", "low", "high", "whatever"]


def _history(*metadata: dict[str, Any]) -> Any:
    said: list[dict[str, Any]] = [{"role": "user", "content": "x"}]
    for facts in metadata:
        said += [{"role": "assistant", "content": "a", "metadata": facts}, {"role": "user", "content": "y"}]
    return read_conversation([Message(**message) for message in said])


def test_links() -> None:
    """A link goes to the last answer alone, when its mark fits and something came after it."""
    first = _history()
    mark = digest_history("here", [item for turn in items_of(first, "o") for item in turn], "a", [])
    noted = {"p:response_id": "r1", "p:chain": mark}
    chained = _history(noted)
    items = items_of(chained, "o")
    assert find_link(chained, items, "here", "p", set()) == Link("r1", 2)
    assert find_link(chained, items, "there", "p", set()) is None
    assert find_link(chained, items, "here", "p", {"r1"}) is None
    assert find_link(first, items_of(first, "o"), "here", "p", set()) is None
    longer = _history(noted, {})
    assert find_link(longer, items_of(longer, "o"), "here", "p", set()) is None


def test_marks_tell_calls_apart() -> None:
    """Another argument is another answer."""
    marks = {digest_history("", [], "", [("c", "look", {"a": value})]) for value in (1, 2, "\ud800")}
    assert len(marks) == 3
