"""What was begun has an end in the log, although a hook keeps that end from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession, HookResult
from amplifier_kit.log.reader import read_log

Plan = Callable[..., dict[str, Any]]

#: What a loop says of a turn in which a tool is called.
TURN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("execution:start", {"turn_id": "t"}),
    ("tool:pre", {"tool_call_id": "c", "tool_name": "look", "turn_id": "t"}),
    ("tool:post", {"tool_call_id": "c"}),
    ("execution:end", {}),
)


@pytest.mark.parametrize("excluded", [[], ["tool:error"], ["*:end", "session:*"]])
async def test_a_session_that_is_torn_away_in_a_hook(home: Path, plan: Plan, excluded: list[str]) -> None:
    """Its log is closed by its cleanup, whatever was to be left out of it."""
    session = AmplifierSession(plan({"exclude_events": excluded}), session_id="torn")
    reached = asyncio.Event()

    async def hang(event: str, data: Any) -> None:
        reached.set()
        await asyncio.sleep(3600)

    async with session:
        session.coordinator.session_state["events"] = TURN
        session.coordinator.hooks.register("tool:post", hang, priority=1)
        turn = asyncio.ensure_future(session.execute("hello"))
        await reached.wait()
        await session.coordinator.request_cancel(immediate=True)
        turn.cancel()
        await asyncio.wait([turn])
    [path] = home.rglob("torn/events.jsonl")
    lines = {line.event: line for line in read_log(path)}
    assert {"session:end", "execution:end", "prompt:complete"} <= set(lines)
    assert "tool:error" not in lines
    assert lines["tool:post"].data["interrupted"] is True


async def test_a_hook_that_denies_an_end_does_not_keep_it_from_the_log(home: Path, plan: Plan) -> None:
    """Whoever withholds a result from the model cannot hide that there was a call that ended."""
    async with AmplifierSession(plan(), session_id="withheld") as session:
        session.coordinator.session_state["events"] = TURN
        session.coordinator.hooks.register("tool:post", lambda event, data: HookResult(action="deny"), priority=1)
        await session.execute("hello")
    [path] = home.rglob("withheld/events.jsonl")
    lines = list(read_log(path))
    events = [line.event for line in lines]
    assert "tool:error" not in events
    assert events.index("tool:post") < events.index("execution:end")
    assert lines[events.index("tool:post")].get("status") == "denied"
