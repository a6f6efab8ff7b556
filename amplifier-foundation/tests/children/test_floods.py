"""Children that say, read or do far too much: whoever started them gets what can be read, and goes on."""

import os
from collections import Counter
from typing import Any

import pytest

_MUCH = 3_000_000
_WORDS = 20_000


def _ask(instruction: str = "Go.") -> dict[str, Any]:
    given = {"agent": "explorer", "instruction": instruction, "context_depth": "none"}
    return {"tool_calls": [{"name": "delegate", "arguments": given, "id": "c1"}]}


@pytest.fixture
def flooded(tree: Any) -> Any:
    """Return a tree whose sessions hand work to agents and run commands."""
    (tree.home / "policy.yaml").write_text(
        "rules: [{action: session.spawn, verdict: allow}, {action: process.exec, verdict: allow}]", encoding="utf-8"
    )
    tree.plan["tools"] = [{"module": "tool-delegate"}, {"module": "tool-bash", "config": {"sandbox": "off"}}]
    return tree


async def _told(tree: Any, child_turns: list[dict[str, Any]]) -> tuple[str, Counter[str], str]:
    """Have a root delegate; return what its model read, the events of its log, and the id of the child."""
    tree.script([_ask(), {"text": "I go on.", "expect": {"last_role": "tool"}}], {"explorer": child_turns})
    async with tree.run() as runtime:
        assert await runtime.execute("Go.") == "I go on."
    events = tree.events(runtime.session_id)
    (child,) = {data["sub_session_id"] for event, data in events if event == "delegate:agent_spawned"}
    assert max(len(str(data)) for _, data in events) < 200_000
    read = next(text for role, text in tree.said(runtime.session_id) if role == "tool")
    return read, Counter(event for event, _ in events), child


async def test_an_endless_answer_is_cut(flooded: Any) -> None:
    """The model reads its beginning, that it was cut, and where all of it is: there it is."""
    read, events, child = await _told(flooded, [{"text": "begin " + "x" * _MUCH}])
    assert len(read) < 120_000
    assert "begin xxx" in read
    assert f"cut: the answer has {_MUCH + 6} characters, all of it is in {child}" in read
    assert events["delegate:agent_completed"] == 1
    assert len(flooded.said(child)[-1][1]) == _MUCH + 6


async def test_a_flood_from_a_tool_of_a_child_is_cut_for_the_child(flooded: Any) -> None:
    """Its own model reads a part, and its answer comes back as any other."""
    command = f"head -c {_MUCH} /dev/zero | tr '\\0' x"
    calls = [{"name": "bash", "arguments": {"command": command}, "id": "b"}]
    read, events, child = await _told(flooded, [{"tool_calls": calls}, {"text": "Much."}])
    assert '"response": "Much."' in read
    assert events["delegate:agent_completed"] == 1
    (result,) = [text for role, text in flooded.said(child) if role == "tool"]
    assert "xxx" in result
    assert len(result) < 200_000


async def test_an_endless_failure_is_cut(flooded: Any) -> None:
    """What a child raises is a result that can be read, and an event, however much it is."""
    error = {"type": "InvalidRequestError", "message": "y" * _MUCH}
    read, events, _ = await _told(flooded, [{"error": error}])
    assert "The agent 'explorer' failed" in read
    assert len(read) < 20_000
    assert events["delegate:error"] == 1


async def test_very_many_events_are_told_and_the_answer_comes(tree: Any, spawn_in: Any) -> None:
    """Every part of a long answer is an event: none is lost on the way, and the parent is not held up for good."""
    words = [f"w{number}" for number in range(_WORDS)]
    tree.script([{"text": "I go on."}], {"explorer": [{"text": " ".join(words)}]})
    heard: Counter[str] = Counter()
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    async with tree.run(environ=environ, on_child_event=lambda facts, event, data: heard.update([event])) as runtime:
        result = await spawn_in(runtime)("explorer", "Go.")
        assert await runtime.execute("And now?") == "I go on."
    assert result["output"] == " ".join(words)
    assert heard["llm:stream_block_delta"] >= _WORDS // 2
    assert (heard["session:start"], heard["session:end"]) == (1, 1)
